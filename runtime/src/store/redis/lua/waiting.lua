-- Put in front of the scripts that make jobs wait: push, settle, migrate, respawn.
--
-- `at`: { now=, up= (ms, see clock), jobs=, active=, due=, topics= (keys), wake= (channel) }
-- topic: { name=, ready=, delayed=, unique= (keys), arrived={}, later={} }

-- When a job is due, in ms: '' is now, '+n' is n ms from now, 'n' is that point in time or now if it is past.
local function due_time(at, due)
  if due == '' then return at.now end
  if string.sub(due, 1, 1) == '+' then return at.up + tonumber(due) end
  return math.max(at.now, tonumber(due))
end

-- Notes that the job waits until `due`; announce() carries it out.
local function wait(at, topic, id, due)
  if due <= at.now then
    topic.arrived[#topic.arrived + 1] = id
  else
    topic.later[#topic.later + 1] = due
    topic.later[#topic.later + 1] = id
    topic.next = math.min(topic.next or due, due)
  end
end

-- Stores a new job: 1. Or 0: the id is known. Or the id of the job that holds the same unique value.
local function insert(at, topic, id, due, unique, body)
  if redis.call('HEXISTS', at.jobs, id) == 1 then return 0 end
  if unique ~= '' then
    local holder = redis.call('HGET', topic.unique, unique)
    -- A holder whose job is gone holds nothing.
    if holder and redis.call('HEXISTS', at.jobs, holder) == 1 then
      count(topic.name, 'duplicate')
      return holder
    end
    redis.call('HSET', topic.unique, unique, id)
  end
  due = due_time(at, due)
  redis.call('HSET', at.jobs, id, struct.pack('>I8I8', at.now, due) .. body)
  wait(at, topic, id, due)
  count(topic.name, 'pushed')
  return 1
end

-- Carries out what wait() noted, and wakes whoever waits for it: for ready jobs only if the topic was empty, for delayed
-- ones only if nothing is due earlier. All topics ever used are added to `topics` at just these moments.
local function announce(at, topic)
  if #topic.arrived > 0 then
    many('LPUSH', topic.ready, topic.arrived)
    if redis.call('SADD', at.active, topic.name) == 1 then
      redis.call('SADD', at.topics, topic.name)
      redis.call('PUBLISH', at.wake, 'ready ' .. topic.name)
    end
  end
  if #topic.later > 0 then
    many('ZADD', topic.delayed, topic.later)
    if redis.call('ZADD', at.due, 'LT', 'CH', topic.next, topic.name) == 1 then
      redis.call('SADD', at.topics, topic.name)
      if redis.call('ZRANGE', at.due, 0, 0)[1] == topic.name then
        redis.call('PUBLISH', at.wake, string.format('due %.0f', topic.next - at.now))
      end
    end
  end
end
