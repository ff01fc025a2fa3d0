-- Adds a token, and requires one of every request from then on.
--
-- KEYS  1 tokens  2 their limits  3 ids of the tenant's tokens  4 whether requests need a token
-- ARGV  1 id  2 what is stored of it  3 its limits  4 how many a tenant may have  5 channel of changes
--       6 what to write into KEYS[4]  7 id of the token with which it is made, or empty
-- Returns 1 added, 0 there is one with this id, -1 the tenant has too many, -2 the token in ARGV[7] is gone.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
if ARGV[7] ~= '' and redis.call('HEXISTS', KEYS[1], ARGV[7]) == 0 then return -2 end
if redis.call('SCARD', KEYS[3]) >= tonumber(ARGV[4]) then return -1 end
redis.call('SET', KEYS[4], ARGV[6])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
redis.call('SADD', KEYS[3], ARGV[1])
publish(ARGV[5], ARGV[1])
return 1
