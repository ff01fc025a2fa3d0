-- Moves due jobs of one partition from delayed to ready, at most so many, so that a burst cannot block the server.
--
-- KEYS  1 due  2 active  3 topics, then per topic: ready, delayed
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 how many at most, up to 1,000; then the topics' names
-- Returns { moved, ms until the next job of the partition is due (0: there are due ones left) or '' if none is delayed }
local now = clock(ARGV[1])
local at = { now = now, active = KEYS[2], due = KEYS[1], topics = KEYS[3], wake = ARGV[2] }
local left, names = tonumber(ARGV[3]), #ARGV - 3
local moved = 0
despite_full_memory(at.due)
for t = 1, names do
  local topic = { name = ARGV[3 + t], ready = KEYS[2 + 2 * t], delayed = KEYS[3 + 2 * t], later = {} }
  -- An equal share of what is left: a topic with a million due jobs does not hold up the ones after it.
  local share = math.ceil((left - moved) / (names - t + 1))
  topic.arrived = redis.call('ZRANGEBYSCORE', topic.delayed, '-inf', now, 'LIMIT', 0, share)
  if #topic.arrived > 0 then
    announce(at, topic)
    many('ZREM', topic.delayed, topic.arrived)
    moved = moved + #topic.arrived
  end
  local head = redis.call('ZRANGE', topic.delayed, 0, 0, 'WITHSCORES')
  if head[2] then redis.call('ZADD', at.due, head[2], topic.name) else redis.call('ZREM', at.due, topic.name) end
end
local head = redis.call('ZRANGE', at.due, 0, 0, 'WITHSCORES')
return { moved, head[2] and math.max(0, tonumber(head[2]) - now) or '' }
