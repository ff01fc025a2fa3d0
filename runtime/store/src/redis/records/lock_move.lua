-- Lets a process, and no other one, move a tenant's jobs for a time.
--
-- KEYS  1 mover
-- ARGV  1 process  2 for how long, ms; '0': it stops
-- Returns 1 the process moves them, 0 another one does.
local driver = redis.call('GET', KEYS[1])
if driver and driver ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return 1
