-- Moves due jobs of one partition from delayed to ready, at most so many, so that a burst cannot block the server.
--
-- KEYS  1 to 8: see waiting; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 how many at most, up to 1,000; then the topics' names
-- Returns { moved, ms until the next job of the partition is due (0: there are due ones left) or '' if none is delayed }
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local left, names = tonumber(ARGV[3]), #ARGV - 3
local moved = 0
despite_full_memory(at.due)
for t = 1, names do
  local topic = topic_row(ARGV[3 + t], 2 + 7 * t)
  -- An equal share of what is left: a topic with a million due jobs does not hold up the ones after it.
  local share = math.ceil((left - moved) / (names - t + 1))
  local due = redis.call('ZRANGEBYSCORE', topic.delayed, '-inf', now, 'LIMIT', 0, share)
  if #due > 0 then
    for _, id in ipairs(due) do wait(at, topic, id, now) end
    announce(at, topic)
    many('ZREM', topic.delayed, due)
    moved = moved + #due
  end
  mend_due(at, topic)
end
local head = redis.call('ZRANGE', at.due, 0, 0, 'WITHSCORES')
return { moved, head[2] and math.max(0, tonumber(head[2]) - now) or '' }
