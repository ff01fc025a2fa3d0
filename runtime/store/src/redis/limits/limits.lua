-- Put in front of claim, whose KEYS and ARGV it reads: how many jobs a claim may take, by the limits that hold for all runners of a topic together.
--
-- `limited` is a ZSET of the topics whose jobs a limit keeps in line. The score says what a topic waits for: `inf` the end of one of its own running
-- jobs; below zero the end of any job of the tenant (minus the time since when it waits); else the time at which its rate allows more or a budget of the
-- tenant starts anew. `due` also has that time. The topic stays in `active`, so that what is pushed meanwhile wakes no runner.
--
-- A rate is a bucket of tokens, see `runtime/core/src/fleet_limits.rs`. `rates` says when it is full again, in microseconds.

local COUNTS, LIMITED, RATES, DUE, TENANT = KEYS[8], KEYS[14], KEYS[15], KEYS[16], KEYS[18]
local function micros() return math.floor(exact * 1000 + 0.5) end

-- What is known of topics with limits, by name: read before the first write, so that damaged keys stop no script half-way.
local used = {}

-- The limits of the tenant and how far they are used: nil unless this claim or one of the last days brought some.
local tenant

-- How many jobs of all topics run. Counted anew each day, so that whatever a person or an older version did wrong does not last.
local function count_running()
  local running, counts = 0, redis.call('HGETALL', COUNTS)
  for i = 1, #counts, 2 do
    if string.sub(counts[i], -8) == ':running' then running = running + tonumber(counts[i + 1]) end
  end
  return running
end

local function read_tenant(now)
  local limits = ARGV[#ARGV - 1]
  if limits == '' and not some_tenant then return end
  local max_running, jobs_per_day, fuel_per_hour = string.match(limits, '^(%d*):(%d*):(%d*)$')
  local running, day, jobs, hour, fuel = unpack(redis.call('HMGET', TENANT, 'running', 'day', 'jobs', 'hour', 'fuel'))
  tenant = { limits = limits, max_running = tonumber(max_running), jobs_per_day = tonumber(jobs_per_day),
             fuel_per_hour = tonumber(fuel_per_hour), day = span_of(now, DAY), hour = span_of(now, HOUR), started = 0 }
  local is_same_day = running and tonumber(day) == tenant.day
  tenant.is_new_day = not is_same_day
  tenant.running = is_same_day and tonumber(running) or count_running()
  tenant.jobs = is_same_day and tonumber(jobs) or 0
  tenant.fuel = tonumber(hour) == tenant.hour and tonumber(fuel) or 0
end

-- Until when a budget of the tenant is used up, or nil if none is.
local function used_up_until()
  if not tenant then return nil end
  if tenant.jobs_per_day and tenant.jobs + tenant.started >= tenant.jobs_per_day then return (tenant.day + 1) * DAY end
  if tenant.fuel_per_hour and tenant.fuel >= tenant.fuel_per_hour then return (tenant.hour + 1) * HOUR end
  return nil
end

-- Writes how far the tenant's limits are used once `n` jobs start.
local function save_tenant(n)
  if not tenant then return end
  tenant.running, tenant.started = tenant.running + n, 0
  if tenant.limits ~= '' then tenant.jobs = tenant.jobs + n end
  redis.call('HSET', TENANT, 'running', tenant.running, 'day', tenant.day, 'jobs', tenant.jobs, 'hour', tenant.hour,
             'fuel', tenant.fuel)
  if tenant.limits == '' then return end
  redis.call('HSET', TENANT, 'limits', tenant.limits)
  -- It is gone some days after the last claim that brought limits.
  if tenant.is_new_day then redis.call('PEXPIREAT', TENANT, (tenant.day + 3) * DAY) end
end

-- The limits of a topic and how far they are used, or nil if neither it nor its tenant has any.
local function limits_of(t)
  if ARGV[3 * t + 6] == '' and ARGV[#ARGV - 1] == '' then return nil end
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

-- At most how many of the `wanted` jobs may start now.
local function allowed(limits, wanted)
  if limits.max_running then wanted = math.min(wanted, limits.max_running - limits.used.running - limits.used.started) end
  if limits.jobs then
    local missing = (limits.used.full_at - micros()) * limits.jobs
    wanted = math.min(wanted, math.floor((limits.burst * limits.per - missing) / limits.per))
  end
  if tenant then
    if used_up_until() then return 0 end
    if tenant.max_running then wanted = math.min(wanted, tenant.max_running - tenant.running - tenant.started) end
    if tenant.jobs_per_day then wanted = math.min(wanted, tenant.jobs_per_day - tenant.jobs - tenant.started) end
  end
  return math.max(wanted, 0)
end

-- Notes that `n` jobs start; save_started() writes it.
local function note_started(limits, n)
  limits.used.started = limits.used.started + n
  if tenant then tenant.started = tenant.started + n end
  if limits.jobs then limits.used.full_at = limits.used.full_at + math.ceil(n * limits.per / limits.jobs) end
end

local function save_started(limits)
  if not limits.jobs or limits.used.started == 0 and not limits.used.is_cut then return end
  redis.call('ZADD', RATES, limits.used.full_at, limits.name)
end

local function limit_until(limits, due, waiters, wake)
  redis.call('ZADD', LIMITED, due, limits.name)
  if redis.call('ZADD', DUE, 'CH', due, rate_of(limits.name)) == 1 then publish_due(DUE, due, wake, waiters) end
end

-- Notes which limit keeps the rest of the topic's jobs in line. Elements that were no jobs have used up none of them.
local function note_limited(limits, waiters, wake)
  local running = limits.max_running and limits.used.running + (tally[limits.name .. ':running'] or 0)
  local until_end = running and running >= limits.max_running and 'inf'
  if not until_end and tenant and tenant.max_running and tenant.running >= tenant.max_running then
    until_end = -math.floor(exact)
  end
  local used_up = used_up_until()
  if used_up then
    limit_until(limits, used_up, waiters, wake)
  elseif until_end then
    redis.call('ZADD', LIMITED, until_end, limits.name)
    redis.call('ZREM', DUE, rate_of(limits.name))
  elseif limits.jobs then
    local rest = math.floor((limits.burst - limits.gathered) * limits.per / limits.jobs)
    local next_at = math.max(micros(), limits.used.full_at - rest)
    limit_until(limits, math.ceil(next_at / 1000), waiters, wake)
  else
    wake_one(waiters, ready_message(LIMITED, limits.name))
  end
end
