-- Removes a token.
--
-- KEYS  1 tokens  2 their limits  3 ids of the tenant's tokens
-- ARGV  1 id  2 channel of changes
-- Returns 1 removed, 0 there is none with this id.
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
publish(ARGV[2], ARGV[1])
return 1
