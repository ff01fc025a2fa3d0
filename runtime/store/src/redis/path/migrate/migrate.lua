-- Moves due jobs of one partition from delayed to ready, at most ARGV[3], so that a burst cannot block the server. And has topics claimed from
-- whose rate allows more.
--
-- KEYS  1 to 14: see waiting; 15 limited; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 how many at most, up to 1,000
--       4 '1': the topics are guessed, move nothing if another one is due
--       5 how many of the topics, the first ones, are claimed from by the next script of this connection: no runner is woken for them
--       then members of `due`, at most 64: the topics' names, with '@' where it is their rate that allows more
-- Returns { how many jobs were moved and topics may be claimed from again, -1 if the guess was wrong }
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local left, names = tonumber(ARGV[3]), #ARGV - 5
local moved, limited = 0, KEYS[15]

-- A topic whose rate allows more by now: 1, or 0 if a claim has found out otherwise since.
local function end_wait(topic)
  local member = rate_of(topic.name)
  if tonumber(redis.call('ZSCORE', at.due, member) or 'inf') > exact then return 0 end
  redis.call('ZREM', at.due, member)
  unlimit(limited, at.active, at.wake, topic.waiters, topic.name)
  -- If it has no jobs any more, another one may start that waits for the same.
  if redis.call('SISMEMBER', at.active, topic.name) == 0 then
    unlimit_waiting(limited, at.due, now, 1, at.wake, topic.waiters)
  end
  return 1
end

-- Moves at most `share` due jobs of a topic. Returns how many.
local function move(topic, share)
  local due = redis.call('ZRANGEBYSCORE', topic.delayed, '-inf', exact, 'LIMIT', 0, share)
  if #due > 0 then
    for _, id in ipairs(due) do wait(at, topic, id, now) end
    announce(at, topic)
    many('ZREM', topic.delayed, due)
  end
  mend_due(at, topic)
  return #due
end

despite_full_memory(at.due)
if ARGV[4] == '1' then
  local guessed = {}
  for t = 1, names do guessed[ARGV[5 + t]] = true end
  -- Or that one would not get its share.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', at.due, '-inf', exact, 'LIMIT', 0, 64)) do
    if not guessed[name] and name ~= SCHEDULES and name ~= ENDS then return { -1 } end
  end
end
for t = 1, names do
  local name = string.match(ARGV[5 + t], '^(.*)@$')
  local topic = topic_row(name or ARGV[5 + t], 8 + 8 * t)
  topic.is_claimed = t <= tonumber(ARGV[5])
  -- An equal share of what is left: a topic with a million due jobs does not hold up the ones after it.
  local share = math.ceil(math.max(left - moved, 0) / (names - t + 1))
  moved = moved + (name and end_wait(topic) or move(topic, share))
end
return { moved }
