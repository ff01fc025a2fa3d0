-- Put in front of every script: the runners that wait for a topic. Builds no key name.

-- The tenant whose key this is.
local function tenant_of(key)
  return string.match(key, '{(.*)/%d+}')
end

-- The message to a runner when the topic has ready jobs.
local function ready_message(key, topic)
  return 'ready ' .. tenant_of(key) .. ' ' .. topic
end

-- Publishes to the runner that has waited longest. It goes on waiting. Returns its channel, or nil if none waits. Runners that no
-- longer listen leave.
local function call_first(waiters, message)
  while true do
    local found = redis.pcall('ZRANGE', waiters, '0', '0')
    local first = not found.err and found[1]
    if not first then return nil end
    local receivers = redis.pcall('PUBLISH', first, message)
    if type(receivers) == 'number' and receivers > 0 then return first end
    redis.call('ZREM', waiters, first)
  end
end

-- Wakes the runner that has waited longest: it waits no more until it has found the topic empty.
local function wake_one(waiters, message)
  local woken = call_first(waiters, message)
  if woken then redis.call('ZREM', waiters, woken) end
end
