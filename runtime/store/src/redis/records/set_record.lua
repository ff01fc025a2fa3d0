-- Writes a record of the installation, over the one of the generation before.
--
-- KEYS  1 the records
-- ARGV  1 of what  2 generation  3 record  4 channel of all runners  5 the message for them, '' for none
-- Returns 1 written, 0 another process has written meanwhile.
local known = redis.call('HGET', KEYS[1], ARGV[1])
local generation = known and tonumber(string.match(known, '^%d+')) or 0
if generation ~= ARGV[2] - 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
if ARGV[5] ~= '' then publish(ARGV[4], ARGV[5]) end
return 1
