-- Moves due jobs of one partition from delayed to ready, at most so many, so that a burst cannot block the server.
--
-- KEYS  1 to 9: see waiting; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 how many at most, up to 1,000
--       4 '1': the topics are guessed, move nothing if another one is due; then the topics' names, at most 64
-- Returns { how many were moved, -1 if the guess was wrong }
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local left, names = tonumber(ARGV[3]), #ARGV - 4
local moved = 0
despite_full_memory(at.due)
if ARGV[4] == '1' then
  local guessed = {}
  for t = 1, names do guessed[ARGV[4 + t]] = true end
  -- Or that one would not get its share.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', at.due, '-inf', now, 'LIMIT', 0, 64)) do
    if not guessed[name] then return { -1 } end
  end
end
for t = 1, names do
  local topic = topic_row(ARGV[4 + t], 2 + 8 * t)
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
return { moved }
