-- Put in front of every script, after basics, waiters and wake. Builds no key name, and writes only through what its caller hands over.

-- When a job is due, as the second half of its stamp says it: with this added, which no time reaches, if a producer has named the time. Such a
-- job waits for that time, also when the clock is set: see set_clock.lua.
local FIXED = 4503599627370496
local function stamped_due(body)
  local due = struct.unpack('>I8', string.sub(body, 9, 16))
  return due % FIXED, due >= FIXED
end

-- That half of a stamp, in whole ms. `given`: as in due_time.
local function due_stamp(due, given)
  due = math.floor(due)
  return struct.pack('>I8', string.match(given, '^%d') and due + FIXED or due)
end

-- The channel that all runners receive: the beginning of the name of the partition's own, and `wake`.
local function all_runners(wake)
  return string.match(wake, '^[^{]*') .. 'wake'
end

-- Publishes when the first thing in `due_times` is due, unless another one is by then. One runner that waits for the topic is to
-- migrate, or, if none waits, whichever is first.
local function publish_due(due_times, due, wake, waiters)
  if redis.call('ZCOUNT', due_times, '-inf', due) > 1 then return end
  local wait_ms = string.format('%.3f', math.max(0, due - exact))
  publish(wake, 'due ' .. wait_ms)
  local message = 'due ' .. tenant_of(due_times) .. ' ' .. wait_ms
  if not call_first(waiters, message) then publish(all_runners(wake), message) end
end

-- The member of `due` for a topic of which a rate keeps jobs in line.
local function rate_of(topic)
  return topic .. '@'
end

-- Has a topic claimed from again of which a limit kept jobs in line, if it still has some. It was in `active` all the time.
local function unlimit(limited, active, wake, waiters, topic)
  redis.call('ZREM', limited, topic)
  if redis.call('SISMEMBER', active, topic) == 0 then return end
  publish(wake, 'ready ' .. topic)
  wake_one(waiters, ready_message(active, topic))
end

-- The same where a running job has ended, if it was the number of running jobs that kept the others in line.
local function unlimit_after_end(limited, active, wake, waiters, topic)
  if redis.call('ZSCORE', limited, topic) == 'inf' then unlimit(limited, active, wake, waiters, topic) end
end

-- Has `n` topics claimed from again: those that have waited longest until a job of their tenant ends. The
-- runner that receives it migrates, because this script does not know which runners wait for them. In `limited` they have the time since which
-- they wait, below zero.
local function unlimit_waiting(limited, due_times, now, n, wake, waiters)
  for place, topic in ipairs(redis.call('ZRANGE', limited, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, n)) do
    redis.call('ZADD', limited, now, topic)
    redis.call('ZADD', due_times, now, rate_of(topic))
    if place == 1 then publish_due(due_times, now, wake, waiters) end
  end
end

-- The hour and the day of a time, counted from 1970: the spans of a tenant's budgets, in ms.
local HOUR, DAY = 3600000, 86400000
local function span_of(now, length)
  return math.floor(now / length)
end

-- The same for commands that answer with one value for each argument. Returns all of these.
local function ask(command, key, list)
  if #list <= 4000 then return redis.call(command, key, unpack(list)) end
  local answers = {}
  for first = 1, #list, 4000 do
    local some = redis.call(command, key, unpack(list, first, math.min(first + 3999, #list)))
    for i = 1, #some do answers[first + i - 1] = some[i] end
  end
  return answers
end

-- Notes in `large` a job whose stamp and envelope have more than 4 KiB: scripts that read many jobs at once read these apart.
local function note_large(large, id, body)
  if #body > 4096 then redis.call('SADD', large, id) end
end

-- The member of `due` that stands for the partition's schedules. No topic has such a name.
local SCHEDULES = '@schedules'

-- The same for jobs that have ended, whose ends are still to be passed on: see links.lua.
local ENDS = '@ends'

-- For how long raw producers count as writing to a topic after a runner looked at it whose manifest says so, ms.
local RAW_FOR = 24 * 3600 * 1000

-- Reads a value of `claims`, "deliveries:attempts:holder". A job that was never claimed has none, and one that is not running
-- has no holder.
local function parse_claim(text)
  if not text then return 0, 0, '' end
  local deliveries, attempts, holder = string.match(text, '^(%d+):(%d+):(.*)$')
  return tonumber(deliveries), tonumber(attempts), holder
end

-- The fence: whether `text` says that this very delivery is running, and who holds it: a worker, by this very claim.
local function is_running(text, delivery, by)
  local deliveries, attempts, holder = parse_claim(text)
  return deliveries == tonumber(delivery) and holder == by and holder ~= '', attempts
end

-- When the lease of a job ends, given what `claims` says of it: its own, if it was extended, or that of its claim. Nil if it is
-- not running.
local function lease_end(leases, extended, id, claim)
  local _, _, holder = parse_claim(claim)
  if holder == '' then return nil end
  return redis.call('ZSCORE', extended, id) or redis.call('ZSCORE', leases, holder) or nil
end

-- The version of the state of a key, as text: of what is stored as `1version bytes`. Nil: there is none, or it was deleted.
local function state_version(key)
  return string.match(redis.call('GETRANGE', key, 0, 20), '^1(%d+) ')
end
