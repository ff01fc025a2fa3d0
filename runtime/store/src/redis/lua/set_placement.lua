-- Writes where a tenant lives, over the record of the generation before.
--
-- KEYS  1 placements
-- ARGV  1 tenant  2 generation  3 record
-- Returns 1 written, 0 another process has written meanwhile.
local known = redis.call('HGET', KEYS[1], ARGV[1])
local generation = known and tonumber(string.match(known, '^%d+')) or 0
if generation ~= ARGV[2] - 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. ARGV[3])
return 1
