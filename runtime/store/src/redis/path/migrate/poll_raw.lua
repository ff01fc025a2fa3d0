-- Looks at topics into which others write behind the store's back, so that their jobs are found like any others.
--
-- KEYS  1 to 14: see waiting; then a row per topic; last: raw
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel, then the topics' names, at most 500
-- Returns nothing.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
despite_full_memory(at.due)
redis.call('ZREMRANGEBYSCORE', KEYS[#KEYS], '-inf', now - RAW_FOR)
for t = 1, #ARGV - 2 do
  local topic = topic_row(ARGV[2 + t], 7 + 8 * t)
  redis.call('ZADD', KEYS[#KEYS], now, topic.name)
  if has_ready(topic) then wake(at, topic) end
  local due = next_due(topic)
  if due then alarm(at, topic, due) end
end
