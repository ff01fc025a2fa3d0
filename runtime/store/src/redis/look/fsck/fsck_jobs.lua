-- Put after waiting. What is known of jobs of one topic, at one moment. Changes nothing.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row; 23 claims  24 leases  25 extended, then the processing lists of claims
-- ARGV  1 topic  2 how to look into the ready Lists: '' not at all, 'own' into that of the job's priority first, 'all' into each
--       3 number of claims, then their holders
--       then per job: id, unique value that it holds until it is over ('': none)
-- Returns per job, 13: 1 if it is stored; what `claims` says; in which ready Lists it is ('high normal low', '': none or not looked
--   for); 1 if delayed; 1 if dead; what `keyed` says; 1 if it waits for its key; 1 if it holds a slot of its key; 1 if the list of its claim
--   has it, 0 if not, 2 if that claim is none of those named; 1 if it has a lease; priority; 1 if large; the holder of its unique value.
-- Texts are '' where there is nothing. At the end: 1 if the topic is listed.
local at, topic = partition(0, 0, ''), topic_row(ARGV[1], 15)
local claims, leases, extended = KEYS[23], KEYS[24], KEYS[25]
local lists = {}
for c = 1, tonumber(ARGV[3]) do lists[ARGV[3 + c]] = KEYS[25 + c] end

local function yes(there_is) return there_is and 1 or 0 end

-- The ready Lists that have the job. New jobs are at the left, where LPOS begins.
local function lines_of(id, how, priority)
  local found = {}
  if how == '' then return '' end
  local order = { priority, 'high', 'normal', 'low' }
  for i, line in ipairs(order) do
    if i == 1 or line ~= priority then
      local places = redis.call('LPOS', topic.ready[line], id, 'COUNT', how == 'all' and 2 or 1)
      for _ = 1, #places do found[#found + 1] = line end
      if how == 'own' and #found > 0 then break end
    end
  end
  return table.concat(found, ' ')
end

-- Whether the job waits for its key, at this place, and whether it holds a slot of it.
local function slot_of(id, key, place)
  if not key then return false, false end
  local line = lines.of(at, topic, key)
  local ids = place > 0 and lines.segment(at.slots, line, place) or ''
  return string.find(' ' .. ids .. ' ', ' ' .. id .. ' ', 1, true), lines.holds(line, id)
end

local facts = {}
for i = 4 + tonumber(ARGV[3]), #ARGV, 2 do
  local id, claim = ARGV[i], redis.call('HGET', claims, ARGV[i]) or ''
  local holder, priority = string.match(claim, '^%d+:%d+:(.*)$') or '', redis.call('HGET', at.priorities, id) or 'normal'
  if not topic.ready[priority] then priority = 'normal' end
  local keyed = redis.call('HGET', at.keyed, id) or ''
  local is_behind, has_slot = slot_of(id, key_of(at, id))
  local listed = 0
  if holder ~= '' then
    listed = lists[holder] and yes(redis.call('LPOS', lists[holder], id)) or 2
  end
  for _, fact in ipairs({
    redis.call('HEXISTS', at.jobs, id), claim, lines_of(id, ARGV[2], priority), yes(redis.call('ZSCORE', topic.delayed, id)),
    yes(redis.call('ZSCORE', topic.dead, id)), keyed,
    yes(is_behind), yes(has_slot), listed,
    yes(holder ~= '' and (redis.call('ZSCORE', leases, holder) or redis.call('ZSCORE', extended, id))), priority,
    redis.call('SISMEMBER', at.large, id),
    ARGV[i + 1] ~= '' and redis.call('HGET', topic.unique, ARGV[i + 1]) or '',
  }) do facts[#facts + 1] = fact end
end
facts[#facts + 1] = yes(redis.call('ZSCORE', at.topics, topic.name))
return facts
