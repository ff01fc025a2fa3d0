-- Changes when waiting jobs are due, and their priorities. Taking a ready job out of its List costs time as in cancel: what would take
-- longer together is left for another call.
--
-- KEYS  1 to 14: see waiting; 15 claims; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 when they are due: '-': it stays, or see due_time
--       4 priority ('': it stays)  5 number of topics, then their names in order
--       then per job, 4: id, index of its topic, when it was enqueued, as its stamp begins, envelope with that priority ('': it stays)
-- Returns per job: 2 changed, 1 it was so before, 0 it does not wait, or another job has its id; as many as there was time for, at
-- least one.
local WALK = 1000000
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local due, priority, topics = ARGV[3] ~= '-' and due_time(at, ARGV[3]), ARGV[4] ~= '' and ARGV[4], {}
for t = 1, tonumber(ARGV[5]) do
  topics[t] = topic_row(ARGV[5 + t], 8 + 8 * t)
  expect_place(topics[t], 'delayed')
end
expect_keys()

-- Writes when the job is due, if that changes, and its envelope and priority, if these do.
local function rewrite(id, body, due_at, envelope)
  local stamp = string.sub(body, 1, 8) .. (due_at and due_stamp(due_at, ARGV[3]) or string.sub(body, 9, 16))
  body = stamp .. (envelope or string.sub(body, 17))
  redis.call('HSET', at.jobs, id, body)
  if not envelope then return end
  redis.call('SREM', at.large, id)
  note_large(at.large, id, body)
  if priority == 'normal' then
    redis.call('HDEL', at.priorities, id)
  else
    redis.call('HSET', at.priorities, id, priority)
    at.special, at.prioritised = true, true
  end
end

-- Puts a job where it waits until `due`. `was_delayed`: until when it has been delayed; false of one that was taken out of its place.
local function put(topic, id, was_delayed, key, deliveries)
  if due > now and key then
    note_key(at, id, 0, key)
    if deliveries == 0 then free_slots(at, topic, { id }) end
  end
  if not was_delayed then return wait(at, topic, id, due, nil, key) end
  redis.call('ZADD', topic.delayed, due, id)
  if due < was_delayed then alarm(at, topic, due) else mend_due(at, topic) end
end

local function change(id, topic, enqueued, envelope)
  local body, deliveries, _, worker = redis.call('HGET', at.jobs, id), parse_claim(redis.call('HGET', KEYS[15], id))
  if not body or string.sub(body, 1, 8) ~= enqueued or worker ~= '' or redis.call('ZSCORE', topic.dead, id) then return 0 end
  local delayed, key = tonumber(redis.call('ZSCORE', topic.delayed, id)), key_of(at, id)
  local stands_by = delayed and delayed >= NEVER
  local before = stands_by and stamped_due(body) or delayed or now
  local moves, has_other = due and due ~= before, priority and priority ~= priority_of(at, id)
  if not moves and not has_other then return 1 end
  -- One that waits for others is due when they have ended.
  local is_put, stays = moves and not stands_by, delayed and (due or now) > now
  local lines_up = not is_put and not delayed and has_other and (not key or lines.holds(lines.of(at, topic, key), id))
  if (is_put and not stays or lines_up) and not take_out(at, topic, id) then return 0 end
  rewrite(id, body, moves and (stands_by and math.ceil(due) or due), has_other and envelope)
  if is_put then put(topic, id, stays and delayed, key or false, deliveries) end
  if lines_up then line_up(at, topic, id) end
  -- The next job may be in the same line, or the next one of its key.
  announce(at, topic)
  return 2
end

despite_full_memory(at.due)
local answers = {}
for i = 6 + #topics, #ARGV, 4 do
  if at.walked >= WALK then break end
  answers[#answers + 1] = change(ARGV[i], topics[tonumber(ARGV[i + 1])], ARGV[i + 2], ARGV[i + 3])
end
for _, topic in ipairs(topics) do after_leaving(at, topic) end
return answers
