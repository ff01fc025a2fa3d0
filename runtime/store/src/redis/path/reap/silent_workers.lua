-- Names the workers whose heartbeat stopped, the latest first, and forgets those that need not be named any more.
--
-- KEYS  1 workers
-- ARGV  1 now, ms ('': the server's clock)  2 a worker is dead after this many ms of silence
--       3 and forgotten after this many: its jobs have come back by then, and if not their leases see to it
-- Returns the ids, at most 1,000.
local now = clock(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - math.max(tonumber(ARGV[2]), tonumber(ARGV[3])))
return redis.call('ZREVRANGEBYSCORE', KEYS[1], now - tonumber(ARGV[2]), '-inf', 'LIMIT', 0, 1000)
