-- Takes ready jobs of several topics of one partition and leases them to a worker, all for the same time: by turns of priority, oldest first. Where none
-- of the jobs is special, plain_claim.lua has answered already.
--
-- In order:
--   0. make a write that changes nothing, so that a full server takes the rest; refuse a processing list that there is already; read how far
--      limits are used (limits.lua)
--   1. for all topics: is there a job of another priority than normal, a pause, a delayed job?
--   2. for each topic (turns.lua): skip it if it is paused; read its ready Lists by turns of priority, with each job's stamp,
--      envelope and history. Take no more than its limits allow, and hold back jobs whose keys have a rate and no token (key_rates.lua)
--   3. for each job: adopt it if a raw producer pushed it; set it aside if it is missing, running, delayed, dead or here twice
--   4. write: lease this claim; put the jobs on its processing list; write their claims, and adopted jobs; set strays aside; delay what is
--      held back; and only then take all of them off the ready Lists. Whatever stops this script, a job is still ready or comes back when the
--      lease ends
--   5. for each topic: mark it as drained if nothing is left, and have the worker wait for it, or else wake one that waits; note that
--      limits keep jobs in line
--   6. once: write the counts; read failures and checkpoints of jobs that were claimed before
--
-- KEYS  1 processing list of this claim  2 jobs  3 claims  4 leases  5 active  6 failures  7 checkpoints  8 counts
--       9 priorities  10 paused  11 turns  12 topics  13 large  14 limited  15 rates  16 due  17 per-key  18 tenant
--       19 key-rates  20 keyed  21 slots
--       then per topic: ready of high, normal and low priority, delayed, dead, strays, waiters
--       last: raw
-- ARGV  1 now, ms ('': the server's clock)  2 holder  3 whose turn it is, one after the other: 1 high, 2 normal, 3 low
--       4 how many bytes of jobs at most, unless the first is larger  5 lease in ms  6 wake channel
--       then per topic: name, how many at most, at most 1,000 jobs in all, and its limits: '' or
--         'max running:jobs:microseconds in which they start:burst:how many to wait for', the first or the others absent, then
--         ' slots of a key:on-dead', unless it is one slot that a dead job gives up, then the rate of a key if it has one:
--         '@jobs:microseconds in which they start:burst'
--       then ' ', and for each of them to which raw producers write by the manifest of this claim its name and ' '
--       then the limits of the tenant: '' or 'max running:jobs in a day:fuel in an hour', each of them may be absent
--       last: the channel that wakes the worker, '' if none does
-- Returns { now in ms, { indexes of drained topics }, { per stray: index of its topic },
--           ids of the jobs with a blank between them, { per job: stamp and envelope }, { per topic with jobs, in their order: its index, how many they are },
--           { per job that was claimed before: its position, delivery, attempt, failure or '', checkpoint or '' },
--           { per refused topic: its index, why } }
local now = clock(ARGV[1])
local processing, jobs, claims, leases, holder = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[2]

despite_full_memory(leases)
if redis.call('EXISTS', processing) == 1 then return redis.error_reply('ERR there is a claim with this number') end
local topics, last_of, most, drained, limits, delayed_keys = (#ARGV - 9) / 3, {}, {}, {}, {}, {}
read_tenant(now)
local function name_of(t) return ARGV[3 * t + 4] end
for t = 1, topics do delayed_keys[t], limits[t] = key(t, DELAYED), limits_of(t) end
local some_delayed, delayed = redis.call('EXISTS', unpack(delayed_keys)) > 0, {}

for t = 1, topics do
  local wanted, before = tonumber(ARGV[3 * t + 5]), taken
  most[t] = limits[t] and allowed(limits[t], wanted) or wanted
  if most[t] > 0 then take_line(t, name_of(t), most[t]) end
  last_of[t] = taken
  if limits[t] then note_started(limits[t], taken - before) end
  -- Others write to these Lists too, and might name a job that is not due yet.
  if some_delayed and taken > before and redis.call('EXISTS', key(t, DELAYED)) == 1 then
    -- Of a key of another type, which no delayed job is in, this is an error without elements.
    for i, due in ipairs(redis.pcall('ZMSCORE', key(t, DELAYED), unpack(ids, before + 1))) do delayed[before + i] = due end
  end
end

-- What is left of `ids` and `bodies` are the jobs, so many; `claim` is what is written to `claims`.
local n, strays, stray_ids, adopted, claim, again, seen, runs = 0, {}, {}, {}, {}, {}, {}, {}
for _, of in pairs(held) do
  for i = 2, #of.jobs, 2 do seen[of.jobs[i]] = true end
end
local function is_used(id) return seen[id] or redis.call('HEXISTS', jobs, id) == 1 end

-- What becomes of an element that is not simply a job that waited: its id and what is stored if it is a job, and what its claim says.
local function look_at(t, i)
  local id, body, deliveries, attempts, held_by = ids[i], bodies[i], parse_claim(history[i])
  local misplaced = seen[id] or held_by ~= '' or delayed[i] or deliveries > 0 and type(redis.pcall('ZSCORE', key(t, DEAD), id)) == 'string'
  if not body and (string.find(ARGV[#ARGV - 2], ' ' .. name_of(t) .. ' ', 1, true) or is_raw(KEYS[#KEYS], name_of(t), now)) then
    id, body = adopt(is_used, name_of(t), id, now, i)
    adopted[#adopted + 1] = { id = id, body = body, topic = name_of(t) }
  elseif not body or misplaced then
    strays[#strays + 1], stray_ids[#stray_ids + 1] = t, id
    return nil
  end
  if deliveries == 0 then return id, body, '1:1:' .. holder end
  again[#again + 1] = { n + 1, deliveries + 1, attempts + 1 }
  return id, body, (deliveries + 1) .. ':' .. (attempts + 1) .. ':' .. holder
end

local first_claim = '1:1:' .. holder
for t = 1, topics do
  local before = n
  for i = (last_of[t - 1] or 0) + 1, last_of[t] do
    local id, body, value = ids[i], bodies[i], first_claim
    if not body or history[i] or seen[id] or delayed[i] then id, body, value = look_at(t, i) end
    if body then
      n, seen[id] = n + 1, true
      ids[n], bodies[n], claim[2 * n - 1], claim[2 * n] = id, body, id, value
    end
  end
  if n > before then
    runs[#runs + 1], runs[#runs + 2] = t, n - before
    count(name_of(t), 'running', n - before)
  end
end
for i = taken, n + 1, -1 do ids[i], bodies[i] = nil, nil end

-- Before the first write: what is held back is announced there.
if next(held) then redis.call('ZCARD', DUE) end
if n > 0 then
  redis.call('ZADD', leases, now + tonumber(ARGV[5]), holder)
  redis.call('LPUSH', processing, unpack(ids))
  save_claims(claims, claim, n)
end
for _, job in ipairs(adopted) do store_adopted(jobs, KEYS[12], KEYS[13], job.topic, job.id, job.body, now) end
-- An id without a job, or a job that is running, delayed or dead: set aside where a person can look at it, never dropped at once.
for s, t in ipairs(strays) do
  redis.pcall('LPUSH', key(t, STRAYS), stray_ids[s])
  redis.pcall('LTRIM', key(t, STRAYS), 0, 9999)
  redis.call('ZADD', KEYS[12], 'GT', now, name_of(t))
  count(name_of(t), 'stray')
end
save_key_rates(now, DUE, KEYS[12], ARGV[6], function(t) return key(t, WAITERS) end)
-- RPOPLPUSH for all of them at once: a script is one step, so this is as safe.
for list, number in pairs(taken_of) do redis.call('LTRIM', list, 0, -number - 1) end
for name, turn in pairs(turn_of) do redis.call('HSET', KEYS[11], name, turn) end

local held_back = {}
for t = 1, topics do
  local name, number = name_of(t), last_of[t] - (last_of[t - 1] or 0)
  local is_drained, was_limited = number < most[t] and not refused[t] and not is_cut[t], false
  if number > 0 or held[t] then save_key_limits(t, name) end
  if limits[t] then
    save_started(limits[t])
    if number == most[t] and number < tonumber(ARGV[3 * t + 5]) then
      is_drained = is_paused(name) or redis.call('EXISTS', key(t, HIGH), key(t, NORMAL), key(t, LOW)) == 0
      if not is_drained then held_back[#held_back + 1] = t end
    end
    was_limited = redis.call('ZREM', LIMITED, name) == 1
  end
  if is_drained or held_back[#held_back] == t then
    -- From here on, the next job to arrive is a transition that is published: no wake-up can be lost.
    if is_drained then redis.call('SREM', KEYS[5], name) end
    if ARGV[#ARGV] ~= '' then redis.pcall('ZADD', key(t, WAITERS), 'NX', now, ARGV[#ARGV]) end
    drained[#drained + 1] = t
  elseif not refused[t] then
    -- There may be more: the next runner takes its part, and wakes another one.
    wake_one(key(t, WAITERS), ready_message(jobs, name))
    if was_limited and redis.call('EXISTS', key(t, HIGH), key(t, NORMAL), key(t, LOW)) > 0 then publish(ARGV[6], 'ready ' .. name) end
  end
end
save_tenant(n)
for _, t in ipairs(held_back) do note_limited(limits[t], key(t, WAITERS), ARGV[6]) end
-- Of those that wait until a job of the tenant ends, one may have been woken and found nothing to do.
local unused = tenant and tenant.max_running and tenant.max_running - tenant.running or 0
if unused > 0 and not used_up_until() then unlimit_waiting(LIMITED, DUE, now, unused, ARGV[6], key(1, WAITERS)) end
save_counts(KEYS[8])

local why = {}
for t, problem in pairs(refused) do why[#why + 1], why[#why + 2] = t, problem end
return { now, drained, strays, table.concat(ids, ' '), bodies, runs, known_before(again, ids, KEYS[6], KEYS[7]), why }
