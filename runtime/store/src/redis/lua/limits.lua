-- Put in front of claim, whose KEYS and ARGV it reads: how many jobs the limits allow that hold for all runners of a topic.
--
-- A topic of which they keep jobs in line is in `limited`: until a running job ends (inf), or until the time at which its rate allows
-- more, when `due` says so, too. It stays in `active`, so that what is pushed meanwhile wakes no runner.
--
-- A rate is a bucket of tokens, see `fleet_limits.rs`. `rates` says when it is full again, in microseconds.

local COUNTS, LIMITED, RATES, DUE, PER_KEY = KEYS[8], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local function micros() return math.floor(exact * 1000 + 0.5) end

-- What is known of topics with limits, by name: read before the first write, so that damaged keys stop no script half-way.
local used = {}

-- The limits of a topic and how far they are used, or nil if it has none.
local function limits_of(t)
  if ARGV[3 * t + 6] == '' then return nil end
  local name = ARGV[3 * t + 4]
  local max_running, jobs, per, burst, gathered = string.match(ARGV[3 * t + 6], '^(%d*):(%d*):(%d*):(%d*):(%d*)')
  local limits = { name = name, max_running = tonumber(max_running), jobs = tonumber(jobs), per = tonumber(per),
                   burst = tonumber(burst), gathered = tonumber(gathered), used = used[name] or { started = 0 } }
  used[name] = limits.used
  if limits.max_running then limits.used.running = tonumber(redis.call('HGET', COUNTS, name .. ':running') or 0) end
  if limits.jobs then
    local now_us = micros()
    local full_at, empty = tonumber(redis.call('ZSCORE', RATES, name) or 0), math.ceil(limits.burst * limits.per / limits.jobs)
    -- A bucket that is emptier than empty: the rate was raised since, or the clock set back.
    limits.used.is_cut = full_at > now_us + empty
    limits.used.full_at = math.min(math.max(now_us, full_at), now_us + empty)
  end
  return limits
end

-- At most how many jobs may start now, of so many that are wanted.
local function allowed(limits, wanted)
  if limits.max_running then wanted = math.min(wanted, limits.max_running - limits.used.running - limits.used.started) end
  if limits.jobs then
    local missing = (limits.used.full_at - micros()) * limits.jobs
    wanted = math.min(wanted, math.floor((limits.burst * limits.per - missing) / limits.per))
  end
  return math.max(wanted, 0)
end

-- Notes that so many jobs start; save_started() writes it.
local function note_started(limits, n)
  limits.used.started = limits.used.started + n
  if limits.jobs then limits.used.full_at = limits.used.full_at + math.ceil(n * limits.per / limits.jobs) end
end

local function save_started(limits)
  if not limits.jobs or limits.used.started == 0 and not limits.used.is_cut then return end
  redis.call('ZADD', RATES, limits.used.full_at, limits.name)
end

-- Notes what holds for the keys of a topic, for those who make its jobs ready and end them.
local function save_key_limits(t, name)
  local wanted = string.match(ARGV[3 * t + 6], ' (.*)$')
  if not wanted and not some_per_key then return end
  if (redis.call('HGET', PER_KEY, name) or nil) == wanted then return end
  if wanted then redis.call('HSET', PER_KEY, name, wanted) else redis.call('HDEL', PER_KEY, name) end
end

-- Notes which limit keeps the rest of the topic's jobs in line. Elements that were no jobs have used up none of them.
local function note_limited(limits, waiters, wake)
  local running = limits.max_running and limits.used.running + (tally[limits.name .. ':running'] or 0)
  if running and running >= limits.max_running then
    redis.call('ZADD', LIMITED, 'inf', limits.name)
    redis.call('ZREM', DUE, rate_of(limits.name))
  elseif limits.jobs then
    local rest = math.floor((limits.burst - limits.gathered) * limits.per / limits.jobs)
    local next_at = math.max(micros(), limits.used.full_at - rest)
    local due = math.ceil(next_at / 1000)
    redis.call('ZADD', LIMITED, due, limits.name)
    if redis.call('ZADD', DUE, 'CH', due, rate_of(limits.name)) == 1 then publish_due(DUE, due, wake, waiters) end
  else
    wake_one(waiters, ready_message(LIMITED, limits.name))
  end
end
