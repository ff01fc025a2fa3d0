-- Notes that the server's clock was set back. Several runners notice the same step, within seconds.
--
-- KEYS  1 clock of all tenants
-- ARGV  1 now, ms ('': the server's clock)  2 by how many ms
-- Returns { the number of the step, by how many ms }
local SAME_FOR, NEARLY = 30000, 5000
local now, back = clock(ARGV[1]), tonumber(ARGV[2])
local number, last, at = unpack(redis.call('HMGET', KEYS[1], 'number', 'back', 'at'))
if number and math.abs(now - at) < SAME_FOR and math.abs(back - last) < NEARLY then return { tonumber(number), tonumber(last) } end
number = (number or 0) + 1
redis.call('HSET', KEYS[1], 'number', number, 'back', back, 'at', now)
return { number, back }
