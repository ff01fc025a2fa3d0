-- Removes waiting and dead jobs of one topic, without counts or signals; their marks as moved go with them.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row  23 claims  24 failures  25 checkpoints  26 moved
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic, then per job: id, unique value or ''
-- Returns per job: 1 removed, 0 it was not there.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic = topic_row(ARGV[3], 15)
local stored = { jobs = at.jobs, claims = KEYS[23], some = { KEYS[24], KEYS[25], at.priorities, at.large } }
despite_full_memory(at.due)

local function remove_exported(id, unique)
  local _, _, worker = parse_claim(redis.call('HGET', KEYS[23], id))
  if worker ~= '' then return 0 end
  if redis.call('ZREM', topic.dead, id) == 0 then
    -- What waits for others, and what they wait for, stays until it has ended.
    if some_links() and (linked_topic(id) or members('ZLEXCOUNT', 'j ' .. id .. ' ') > 0) then return 0 end
    if not take_out(at, topic, id) then return 0 end
  end
  note_end(id)
  if unique ~= '' and string.match(redis.call('HGET', topic.unique, unique) or '', '^%S*') == id then
    redis.call('HDEL', topic.unique, unique)
    redis.call('ZREM', topic.windows, unique)
  end
  remove(stored, { id })
  free_slots(at, topic, { id }, true)
  -- The next job of its key may be the next one to be removed.
  place(at, topic)
  redis.call('HDEL', KEYS[26], id)
  return 1
end

local answers = {}
for i = 4, #ARGV, 2 do answers[#answers + 1] = remove_exported(ARGV[i], ARGV[i + 1]) end
after_leaving(at, topic)
carry_ends(at)
return answers
