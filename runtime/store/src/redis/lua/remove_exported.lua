-- Removes waiting and dead jobs of one topic, without counting or telling anybody; their marks as moved go with them.
--
-- KEYS  1 to 9: see waiting; 10 to 17: the topic's row  18 claims  19 failures  20 checkpoints  21 moved
-- ARGV  1 now, ms ('': the server's clock)  2 topic, then per job: id, unique value or ''
-- Returns per job: 1 removed, 0 it was not there.
local now, up = clock(ARGV[1])
local at = partition(now, up, '')
local topic = topic_row(ARGV[2], 10)
local stored = { jobs = at.jobs, claims = KEYS[18], some = { KEYS[19], KEYS[20], at.priorities, at.large } }
despite_full_memory(at.due)

local function remove_exported(id, unique)
  local _, _, worker = parse_claim(redis.call('HGET', KEYS[18], id))
  if worker ~= '' then return 0 end
  if redis.call('ZREM', topic.dead, id) == 0 and not take_out(at, topic, id) then return 0 end
  if unique ~= '' and string.match(redis.call('HGET', topic.unique, unique) or '', '^%S*') == id then
    redis.call('HDEL', topic.unique, unique)
    redis.call('ZREM', topic.windows, unique)
  end
  remove(stored, { id })
  redis.call('HDEL', KEYS[21], id)
  return 1
end

local answers = {}
for i = 3, #ARGV, 2 do answers[#answers + 1] = remove_exported(ARGV[i], ARGV[i + 1]) end
return answers
