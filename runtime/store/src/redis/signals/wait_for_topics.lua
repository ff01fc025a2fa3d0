-- Has a runner wait for topics of one partition, and forgets those that have waited for so long that they are gone.
--
-- KEYS  the waiters of each topic
-- ARGV  1 now, ms ('': the server's clock)  2 the channel that wakes the runner  3 a runner that goes on says so within this many ms
-- Returns nothing.
local now = clock(ARGV[1])
for _, waiters in ipairs(KEYS) do
  despite_full_memory(waiters)
  redis.call('ZADD', waiters, now, ARGV[2])
  redis.call('ZREMRANGEBYSCORE', waiters, '-inf', now - ARGV[3])
end
