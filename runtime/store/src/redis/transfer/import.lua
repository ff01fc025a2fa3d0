-- Stores jobs of another store as they are, and marks them as moved: id and the time of enqueueing, which begins the stamp.
-- A job that is marked already, or whose id is known, is left out.
--
-- KEYS  1 to 14: see waiting; 15 claims  16 failures  17 checkpoints  18 moved; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 number of topics, then their names in order
--       then per job, 12: id, index of its topic, place (ready, delayed, dead), since or until when in ms,
--         priority ('': normal), unique value ('': none, ':value': until the job is over, 'n:value': for n ms),
--         value of claims or '', failure or '', checkpoint or '', key or '', '1' if it holds a slot of its key or '', stamp and envelope
-- Returns per job: 1 stored, 2 marked already, 0 another job has its id.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topics = {}
for t = 1, tonumber(ARGV[3]) do topics[t] = topic_row(ARGV[3 + t], 11 + 8 * t) end
for i = 4 + #topics, #ARGV, 12 do
  local topic, place = topics[tonumber(ARGV[i + 1])], ARGV[i + 2]
  if place == 'dead' then expect('ZCARD', topic.dead) else expect_place(topic, place == 'ready' and '' or ARGV[i + 3], ARGV[i + 4]) end
  if ARGV[i + 9] ~= '' then expect_keys() end
end

local PLACE = {
  ready = function(topic, id) wait(at, topic, id, now) end,
  -- One that is due by now is still delayed: migrate takes it in its turn.
  delayed = function(topic, id, due)
    topic.later[#topic.later + 1], topic.later[#topic.later + 2] = due, id
    topic.next = math.min(topic.next or due, due)
  end,
  dead = function(topic, id, since)
    redis.call('ZADD', topic.dead, since, id)
    note_used(at, topic)
    redis.call('SADD', at.perishable, topic.name)
  end,
}

local function import(id, topic, place, ms, priority, unique, claim, failure, checkpoint, key, holds, body)
  local enqueued = string.sub(body, 1, 8)
  if redis.call('HGET', KEYS[18], id) == enqueued then return 2 end
  if redis.call('HEXISTS', at.jobs, id) == 1 then return 0 end
  redis.call('HSET', KEYS[18], id, enqueued)
  note_large(at.large, id, body)
  redis.call('HSET', at.jobs, id, body)
  for key, value in pairs({ [at.priorities] = priority, [KEYS[15]] = claim, [KEYS[16]] = failure, [KEYS[17]] = checkpoint }) do
    if value ~= '' then redis.call('HSET', key, id, value) end
  end
  if priority ~= '' or key ~= '' then at.special, at.prioritised = true, nil end
  if key ~= '' then
    note_key(at, id, 0, key)
    if holds ~= '' then hold_slot(at, topic, id, key) end
  end
  if unique ~= '' then
    local window, value = string.match(unique, '^(%d*):(.*)$')
    if not holder_of(at, topic, value, redis.call('HGET', topic.unique, value)) then hold(at, topic, id, value, window) end
  end
  PLACE[place](topic, id, tonumber(ms))
  return 1
end

local answers = {}
for i = 4 + #topics, #ARGV, 12 do
  answers[#answers + 1] = import(ARGV[i], topics[tonumber(ARGV[i + 1])], unpack(ARGV, i + 2, i + 11))
end
for _, topic in ipairs(topics) do
  save_holders(at, topic)
  announce(at, topic)
end
return answers
