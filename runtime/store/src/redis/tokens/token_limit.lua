-- Replaces the limits of a token.
--
-- KEYS  1 tokens  2 their limits
-- ARGV  1 id  2 limits  3 channel of changes
-- Returns 1 replaced, 0 there is no token with this id.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
publish(ARGV[3], ARGV[1])
return 1
