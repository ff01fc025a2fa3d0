-- Finds the topics of a partition of which something may have outlived its limits.
--
-- KEYS  1 perishable  2 topics  3 paused
-- ARGV  1 now, ms ('': the server's clock)  2 for how many ms an idle topic was not in use  3 how many of these at most
-- Returns { topics with dead jobs or windows, idle topics that are not paused }
local now = clock(ARGV[1])
local idle = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2], 'LIMIT', 0, ARGV[3])) do
  if redis.call('SISMEMBER', KEYS[3], name) == 0 then idle[#idle + 1] = name end
end
return { redis.call('SMEMBERS', KEYS[1]), idle }
