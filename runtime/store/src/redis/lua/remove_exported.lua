-- Removes waiting and dead jobs of one topic, without counting or telling anybody; their marks as moved go with them.
--
-- KEYS  1 to 13: see waiting; 14 to 21: the topic's row  22 claims  23 failures  24 checkpoints  25 moved
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic, then per job: id, unique value or ''
-- Returns per job: 1 removed, 0 it was not there.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic = topic_row(ARGV[3], 14)
local stored = { jobs = at.jobs, claims = KEYS[22], some = { KEYS[23], KEYS[24], at.priorities, at.large } }
despite_full_memory(at.due)

local function remove_exported(id, unique)
  local _, _, worker = parse_claim(redis.call('HGET', KEYS[22], id))
  if worker ~= '' then return 0 end
  if redis.call('ZREM', topic.dead, id) == 0 and not take_out(at, topic, id) then return 0 end
  if unique ~= '' and string.match(redis.call('HGET', topic.unique, unique) or '', '^%S*') == id then
    redis.call('HDEL', topic.unique, unique)
    redis.call('ZREM', topic.windows, unique)
  end
  remove(stored, { id })
  forget_key(at, topic, id)
  -- The next job of its key may be the next one to be removed.
  place(topic)
  redis.call('HDEL', KEYS[25], id)
  return 1
end

local answers = {}
for i = 4, #ARGV, 2 do answers[#answers + 1] = remove_exported(ARGV[i], ARGV[i + 1]) end
after_leaving(at, topic)
return answers
