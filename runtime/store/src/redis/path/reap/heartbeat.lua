-- Says that a worker is alive, to a server whose memory is full.
--
-- KEYS  1 workers
-- ARGV  1 now, ms ('': the server's clock)  2 worker
-- Returns nothing.
local now = clock(ARGV[1])
despite_full_memory(KEYS[1])
redis.call('ZADD', KEYS[1], 'GT', now, ARGV[2])
