-- Put in front of the scripts that make jobs wait or no longer wait: push, settle, migrate, respawn, cancel, pause,
-- sweep, poll_raw, adopt_waiting, import, remove_exported, forget_topic. Their KEYS begin with
--
--   1 jobs  2 priorities  3 active  4 due  5 topics  6 counts  7 paused  8 perishable  9 large
--
-- and name for each topic a row of eight: ready of high, normal and low priority, delayed, unique, windows, dead, waiters.

local function partition(now, up, wake)
  return { now = now, up = up, wake = wake, jobs = KEYS[1], priorities = KEYS[2], active = KEYS[3], due = KEYS[4],
           topics = KEYS[5], paused = KEYS[7], perishable = KEYS[8], large = KEYS[9], walked = 0 }
end

-- The topic whose row begins at KEYS[first]. `arrived` and `later` gather what announce() carries out.
local function topic_row(name, first)
  return { name = name, ready = { high = KEYS[first], normal = KEYS[first + 1], low = KEYS[first + 2] },
           delayed = KEYS[first + 3], unique = KEYS[first + 4], windows = KEYS[first + 5], dead = KEYS[first + 6],
           waiters = KEYS[first + 7], arrived = {}, later = {} }
end

-- Reads a key in which the script is to put a job. If another program has made something else of it, the script ends here: before its
-- first write.
local expected = {}
local function expect(command, key)
  if not expected[key] then redis.call(command, key) end
  expected[key] = true
end

-- The same for where wait() puts a job. `due`: '' is now. `priority`: '' is normal, nil any.
local function expect_place(topic, due, priority)
  if due ~= '' then expect('ZCARD', topic.delayed) end
  if priority then
    expect('LLEN', topic.ready[priority == '' and 'normal' or priority])
  else
    for _, ready in pairs(topic.ready) do expect('LLEN', ready) end
  end
end

-- Notes when the topic was last seen in use. A topic that is not in use is forgotten after a time.
local function note_used(at, topic)
  redis.call('ZADD', at.topics, 'GT', at.now, topic.name)
end

-- The priority of a stored job. Where all are normal, one question per script is all it costs.
local function priority_of(at, id)
  if at.mixed == nil then at.mixed = redis.call('EXISTS', at.priorities) == 1 end
  return at.mixed and redis.call('HGET', at.priorities, id) or 'normal'
end

-- Notes that the job waits until `due`; announce() carries it out.
local function wait(at, topic, id, due, priority)
  if due <= at.now then
    priority = priority or priority_of(at, id)
    local arrived = topic.arrived[priority]
    if arrived then arrived[#arrived + 1] = id else topic.arrived[priority] = { id } end
  else
    topic.later[#topic.later + 1] = due
    topic.later[#topic.later + 1] = id
    topic.next = math.min(topic.next or due, due)
  end
end

-- The channel that all runners hear: what the name of the partition's own begins with, and `wake`.
local function all_runners(at)
  return string.match(at.wake, '^[^{]*') .. 'wake'
end

-- Emits that the topic has ready jobs, unless its listeners know it: the script that adds it to `active` publishes, and wakes one
-- of the runners that wait for the topic. A paused topic is never in there.
local function wake(at, topic)
  if redis.call('SADD', at.active, topic.name) == 0 then return end
  note_used(at, topic)
  if redis.call('SISMEMBER', at.paused, topic.name) == 1 then
    redis.call('SREM', at.active, topic.name)
  else
    publish(at.wake, 'ready ' .. topic.name)
    wake_one(topic.waiters, ready_message(at.jobs, topic.name))
  end
end

-- Notes that a job of the topic is due at `due`, ms; publishes that only if no other topic is due by then. One runner that waits
-- for the topic is to move the job, or, if none waits, whichever is first.
local function alarm(at, topic, due)
  if redis.call('ZADD', at.due, 'LT', 'CH', due, topic.name) == 0 then return end
  note_used(at, topic)
  if redis.call('ZCOUNT', at.due, '-inf', due) == 1 then
    local wait_ms = string.format('%.3f', math.max(0, due - exact))
    publish(at.wake, 'due ' .. wait_ms)
    local message = 'due ' .. tenant_of(at.jobs) .. ' ' .. wait_ms
    if not call_first(topic.waiters, message) then publish(all_runners(at), message) end
  end
end

-- Carries out what wait() noted. Topics are added to `topics` at just these moments.
local function announce(at, topic)
  for priority, ids in pairs(topic.arrived) do many('LPUSH', topic.ready[priority], ids) end
  if next(topic.arrived) then wake(at, topic) end
  if #topic.later > 0 then
    many('ZADD', topic.delayed, topic.later)
    alarm(at, topic, topic.next)
  end
end

-- A score as a time in whole ms that can be kept. Others may have written any score.
local function whole_ms(score)
  return math.min(math.max(math.ceil(tonumber(score)), 0), 99999999999999)
end

-- When the next delayed job of the topic is due, or nil.
local function next_due(topic)
  local score = redis.call('ZRANGE', topic.delayed, 0, 0, 'WITHSCORES')[2]
  return score and whole_ms(score)
end

-- Puts `due` right after jobs have left the topic's delayed ones.
local function mend_due(at, topic)
  local due = next_due(topic)
  if due then redis.call('ZADD', at.due, due, topic.name) else redis.call('ZREM', at.due, topic.name) end
end

local function has_ready(topic)
  return redis.call('EXISTS', topic.ready.high, topic.ready.normal, topic.ready.low) > 0
end

-- Takes a waiting job out of its place: whether it was there. The end of a List that is claimed from is looked at first.
-- `walked` counts how many entries were walked through for it, at most.
local function take_out(at, topic, id)
  if redis.call('ZREM', topic.delayed, id) == 1 then
    mend_due(at, topic)
    return true
  end
  local ready = topic.ready[priority_of(at, id)]
  at.walked = at.walked + redis.call('LLEN', ready)
  if redis.call('LREM', ready, -1, id) == 0 then return false end
  if not has_ready(topic) then redis.call('SREM', at.active, topic.name) end
  return true
end
