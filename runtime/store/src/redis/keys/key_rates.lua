-- Put in front of claim, whose KEYS and ARGV it reads: which jobs the rates of their keys hold back. A job asks the bucket of its key as it is
-- taken, see `runtime/core/src/fleet_limits.rs`; `key-rates` says when that is full again, in microseconds. Without a token the job leaves the line,
-- keeps its slot, and is delayed until there is one.
--
-- `keyed` has the place `00` for a job that was held back and has not started since. It starts before other jobs that hold slots of its key.

local PER_KEY, KEY_RATES, KEYED, SLOTS = KEYS[17], KEYS[19], KEYS[20], KEYS[21]

-- For how long a job is held back at most, ms: by then its rate may be another one. How many jobs a call holds back at most.
local HELD_MAX, HELD_JOBS = 300000, 1000

-- By index of their topic: the jobs that are held back, each with the time. What `keyed` is to say of jobs that are held back or start.
local held, held_jobs, marks = {}, 0, {}
local rates_of_keys, said_of_keys, buckets, asked = {}, {}, {}, {}

local function now_us() return math.floor(exact * 1000 + 0.5) end

-- The rate of a topic's keys. Empty: they had one, and what it held back may start. False: they never had one. `said`: whether claims have
-- noted what holds for the keys of some topics.
local function key_rate(t, said)
  if rates_of_keys[t] == nil then
    local limits = ARGV[3 * t + 6]
    local jobs, per, burst = string.match(limits, '@(%d+):(%d+):(%d+)$')
    local known = said and redis.call('HMGET', PER_KEY, ARGV[3 * t + 4], rate_of(ARGV[3 * t + 4])) or {}
    local rate = jobs and { jobs = tonumber(jobs), per = tonumber(per), burst = tonumber(burst), each = math.ceil(per / jobs),
                            slots = tonumber(string.match(limits, ' (%d+):')) or 1 }
    rates_of_keys[t], said_of_keys[t] = rate or known[2] and {} or false, known
  end
  return rates_of_keys[t]
end

-- Notes what holds for the keys of a topic, for the scripts that make its jobs ready and end them.
local function save_key_limits(t, name)
  local wanted, known, rate = string.match(ARGV[3 * t + 6], ' (%d+:%a+)'), said_of_keys[t] or {}, rates_of_keys[t]
  if wanted and known[1] ~= wanted then
    redis.call('HSET', PER_KEY, name, wanted)
  elseif known[1] and not wanted then
    redis.call('HDEL', PER_KEY, name)
  end
  if rate and rate.jobs and not known[2] then redis.call('HSET', PER_KEY, rate_of(name), 1) end
end

-- Until when a job is delayed, ms; 0 of one that is not. Nil: another program has damaged the key, and no job can be delayed there.
local function due_of(delayed, id)
  local due = redis.pcall('ZSCORE', delayed, id)
  if type(due) == 'table' then return nil end
  return tonumber(due or 0)
end

-- The bucket of a key: when it is full again; how many jobs of the key are held back, until when each of them is delayed, and the last, ms.
local function bucket_of(t, key, rate, delayed)
  local member = ARGV[3 * t + 4] .. ' ' .. key
  if buckets[member] then return buckets[member] end
  local full_at, empty_at = tonumber(redis.call('ZSCORE', KEY_RATES, member) or 0), now_us() + math.ceil(rate.burst * rate.per / rate.jobs)
  -- A bucket that is emptier than empty: the rate was raised since, or the clock set back.
  local bucket = { is_changed = full_at > empty_at, full_at = math.min(math.max(full_at, now_us()), empty_at), held = 0, last = 0, dues = {} }
  -- The ids of the holders; behind the line break stand those that wait.
  local holders = string.match(rate.slots > 1 and redis.call('HGET', SLOTS, member) or '', '^[^\n]*')
  for id in string.gmatch(holders, '%S+') do
    if string.sub(redis.call('HGET', KEYED, id) or '', 1, 3) == '00 ' then
      local due = due_of(delayed, id) or 0
      bucket.held, bucket.last, bucket.dues[due] = bucket.held + 1, math.max(bucket.last, due), true
    end
  end
  buckets[member] = bucket
  return bucket
end

local function has_token(bucket, rate)
  return rate.burst * rate.per - (bucket.full_at - now_us()) * rate.jobs >= rate.per
end

-- When a job may start that gets no token now, in ms. A new one comes after those that are held back already. One that was held back comes
-- when there is a token: those before it were asked before it, and those after it find no token earlier either. Each time is one job's, because
-- jobs of the same time are sorted by their ids.
local function next_start(bucket, rate, was_held)
  local now = math.floor(exact)
  local due = math.ceil((bucket.full_at - math.floor((rate.burst - 1) * rate.per / rate.jobs)) / 1000)
  if not was_held and bucket.held > 0 then due = math.max(due, math.max(bucket.last, now) + math.ceil(rate.each / 1000)) end
  due = math.max(math.min(due, now + HELD_MAX), now + 1)
  if not was_held then due = math.max(due, bucket.last + 1) end
  while bucket.dues[due] do due = due + 1 end
  bucket.last, bucket.dues[due] = math.max(bucket.last, due), true
  return due
end

-- Whether the rate of its key holds back a job that was about to be taken. If not, it has a token. `keyed`: what is known of its key.
local function is_held_back(t, id, claim, keyed, delayed, dead)
  local place, key = string.match(keyed or '', '^(%d+) (.*)$')
  if not key or asked[id] then return false end
  asked[id] = true
  -- An element that is set aside needs no token.
  local deliveries, _, holder = parse_claim(claim)
  local is_dead = deliveries > 0 and type(redis.pcall('ZSCORE', dead, id)) == 'string'
  if holder ~= '' or is_dead or due_of(delayed, id) ~= 0 then return false end
  local rate, was_held = key_rate(t), place == '00'
  local bucket = rate.jobs and bucket_of(t, key, rate, delayed)
  if not bucket or has_token(bucket, rate) and (was_held or bucket.held == 0) then
    if bucket then bucket.full_at, bucket.is_changed = bucket.full_at + rate.each, true end
    if was_held then
      if bucket then bucket.held = math.max(bucket.held - 1, 0) end
      marks[#marks + 1], marks[#marks + 2] = id, '0 ' .. key
    end
    return false
  end
  local due = next_start(bucket, rate, was_held)
  if not was_held then
    bucket.held = bucket.held + 1
    marks[#marks + 1], marks[#marks + 2] = id, '00 ' .. key
  end
  bucket.held = math.max(bucket.held, 1)
  held[t] = held[t] or { delayed = delayed, jobs = {}, next = due }
  local jobs = held[t].jobs
  jobs[#jobs + 1], jobs[#jobs + 2] = due, id
  held[t].next, held_jobs = math.min(held[t].next, due), held_jobs + 1
  return true
end

-- Writes what was found out. Each new bucket makes room for itself and more: those that are full again cannot pile up.
local function save_key_rates(now, due_times, topics, wake, waiters_of)
  local changed = {}
  for member, bucket in pairs(buckets) do
    if bucket.is_changed then changed[#changed + 1], changed[#changed + 2] = bucket.full_at, member end
  end
  if #changed > 0 then
    many('ZREM', KEY_RATES, redis.call('ZRANGEBYSCORE', KEY_RATES, '-inf', now_us(), 'LIMIT', 0, #changed))
    many('ZADD', KEY_RATES, changed)
  end
  many('HSET', KEYED, marks)
  for t, of in pairs(held) do
    local name = ARGV[3 * t + 4]
    many('ZADD', of.delayed, of.jobs)
    redis.call('ZADD', topics, 'GT', now, name)
    if redis.call('ZADD', due_times, 'LT', 'CH', of.next, name) == 1 then publish_due(due_times, of.next, wake, waiters_of(t)) end
  end
end
