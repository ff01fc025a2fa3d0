-- Put, after waiting, in front of the scripts that store jobs or know of unique values: push, settle, respawn, sweep,
-- import.

-- The job that holds a unique value of the topic, if one does: until it is gone, or until a window of time has passed.
local function holder_of(at, topic, value)
  local holder = redis.call('HGET', topic.unique, value)
  if not holder then return nil end
  local id, expiry = string.match(holder, '^(%S+) (%d+)$')
  if id then return tonumber(expiry) > at.now and id or nil end
  return redis.call('HEXISTS', at.jobs, holder) == 1 and holder or nil
end

-- Forgets at most so many windows of the topic that have passed.
local function purge_windows(at, topic, limit)
  for _, value in ipairs(redis.call('ZRANGEBYSCORE', topic.windows, '-inf', at.now, 'LIMIT', 0, limit)) do
    redis.call('HDEL', topic.unique, value)
    redis.call('ZREM', topic.windows, value)
  end
end

-- Gives the job the value until it is over, or for a window of so many ms ('': until it is over).
local function hold(at, topic, id, value, window)
  if window == '' then
    if redis.call('HSET', topic.unique, value, id) == 0 then redis.call('ZREM', topic.windows, value) end
  else
    -- Each new one makes room for itself and more: what has passed cannot pile up.
    purge_windows(at, topic, 4)
    local expiry = string.format('%.0f', at.up + tonumber(window))
    redis.call('HSET', topic.unique, value, id .. ' ' .. expiry)
    redis.call('ZADD', topic.windows, expiry, value)
    redis.call('SADD', at.perishable, topic.name)
  end
end

-- When a job is due, in ms: '' is now, '+n' is n ms from now, 'n' is that point in time or now if it is past.
local function due_time(at, due)
  if due == '' then return at.now end
  if string.sub(due, 1, 1) == '+' then return at.up + tonumber(due) end
  return math.max(at.now, tonumber(due))
end

-- Stores a new job: 1. Or 0: the id is known. Or the id of the job that holds the same unique value.
-- `priority`: '' is normal. `unique`: '' is none, ':value' is held until the job is over, 'n:value' for n ms.
local function insert(at, topic, id, due, priority, unique, body)
  if unique ~= '' then
    if redis.call('HEXISTS', at.jobs, id) == 1 then return 0 end
    local window, value = string.match(unique, '^(%d*):(.*)$')
    local holder = holder_of(at, topic, value)
    if holder then
      count(topic.name, 'duplicate')
      return holder
    end
    hold(at, topic, id, value, window)
  end
  due = due_time(at, due)
  body = struct.pack('>I8I8', at.now, due) .. body
  if redis.call('HSETNX', at.jobs, id, body) == 0 then return 0 end
  note_large(at.large, id, body)
  if priority == '' then
    priority = 'normal'
  else
    redis.call('HSET', at.priorities, id, priority)
    at.mixed = true
  end
  wait(at, topic, id, due, priority)
  count(topic.name, 'pushed')
  return 1
end
