-- Requires no token any more, unless there are tokens.
--
-- KEYS  1 tokens  2 whether requests need a token
-- ARGV  1 what to write there
-- Returns 1 written, 0 there are tokens.
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
return 1
