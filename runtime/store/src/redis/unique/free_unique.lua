-- Frees a unique value that is held for a time.
--
-- KEYS  1 unique  2 windows
-- ARGV  1 now, ms ('': the server's clock)  2 the value
-- Returns { 1 } if it was held so, else { 0 }: one that a job holds until it is done stays held.
local stored = redis.call('HGET', KEYS[1], ARGV[2])
local expiry = stored and string.match(stored, '^%S+ (%d+)$')
if not expiry then return { 0 } end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('ZREM', KEYS[2], ARGV[2])
return { tonumber(expiry) > clock(ARGV[1]) and 1 or 0 }
