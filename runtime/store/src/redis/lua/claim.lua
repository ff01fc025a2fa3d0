-- Takes ready jobs of several topics of one partition and leases them to a worker, all for as long: by turns of priority, oldest first.
--
-- In order:
--   0. make a write that changes nothing, so that a full server takes the rest; refuse a processing list that there is already
--   1. for all topics: is there a job of another priority than normal, a pause, a delayed job?
--   2. for each topic (turns.lua): skip it if it is paused; read its ready Lists by turns of priority, with each job's stamp,
--      envelope and history; lease this claim; move what was taken to its processing list; mark the topic as drained if nothing is left, and have
--      the worker wait for it, or else wake one that waits
--   3. for each job: adopt it if a raw producer pushed it; set it aside if it is missing, running, delayed, dead or here twice
--   4. once: write the claims and the counts; read failures and checkpoints of jobs that were claimed before
--
-- KEYS  1 processing list of this claim  2 jobs  3 claims  4 leases  5 active  6 failures  7 checkpoints  8 counts
--       9 priorities  10 paused  11 turns  12 topics  13 large
--       then per topic: ready of high, normal and low priority, delayed, dead, strays, waiters
--       last: raw
-- ARGV  1 now, ms ('': the server's clock)  2 holder  3 whose turn it is, one after the other: 1 high, 2 normal, 3 low
--       4 how many bytes of jobs at most, unless the first is larger  5 lease in ms
--       then per topic: name, how many at most. At most 1,000 jobs in all.
--       last: the channel that wakes the worker, '' if none does
-- Returns { now in ms, { indexes of drained topics }, { per stray: index of its topic },
--           { per job: index of its topic, id, stamp and envelope; of one that was claimed before, the index is negative,
--             and delivery, attempt, failure or '', checkpoint or '' follow },
--           { per refused topic: its index, why } }
local now = clock(ARGV[1])
local processing, jobs, claims, holder = KEYS[1], KEYS[2], KEYS[3], ARGV[2]

despite_full_memory(KEYS[4])
if redis.call('EXISTS', processing) == 1 then return redis.error_reply('ERR there is a claim with this number') end
local delayed, drained = {}, {}
local topics, delayed_keys = (#ARGV - 6) / 2, {}
local function name_of(t) return ARGV[2 * t + 4] end
for t = 1, topics do delayed_keys[t] = key(t, DELAYED) end
local some_delayed = redis.call('EXISTS', unpack(delayed_keys)) > 0

for t = 1, topics do
  local name, max, before = name_of(t), tonumber(ARGV[2 * t + 5]), #ids
  take_line(t, name, max, now)
  if #ids - before < max and not refused[t] and not is_cut[t] then
    -- From here on, the next job to arrive is a transition that is published: no wake-up can be lost.
    redis.call('SREM', KEYS[5], name)
    if ARGV[#ARGV] ~= '' then redis.pcall('ZADD', key(t, WAITERS), 'NX', now, ARGV[#ARGV]) end
    drained[#drained + 1] = t
  elseif not refused[t] then
    -- There may be more: the next runner takes its part, and wakes another one.
    wake_one(key(t, WAITERS), ready_message(jobs, name))
  end
  -- Others write to these Lists too, and might name a job that is not due yet.
  if some_delayed and #ids > before and redis.call('EXISTS', key(t, DELAYED)) == 1 then
    -- Of a key of another type, which no delayed job is in, this is an error without elements.
    for i, due in ipairs(redis.pcall('ZMSCORE', key(t, DELAYED), unpack(ids, before + 1))) do delayed[before + i] = due end
  end
end
local why = {}
for t, problem in pairs(refused) do why[#why + 1], why[#why + 2] = t, problem end
if #ids == 0 then return { now, drained, {}, {}, why } end

local strays, taken, claim, again, seen, running = {}, {}, {}, {}, {}, {}
local first_claim = '1:1:' .. holder
for i, id in ipairs(ids) do
  local t = topic_of[i]
  local body, deliveries, attempts, held_by = bodies[i], parse_claim(history[i])
  local misplaced = seen[id] or held_by ~= '' or delayed[i] or deliveries > 0 and type(redis.pcall('ZSCORE', key(t, DEAD), id)) == 'string'
  if not body and is_raw(KEYS[#KEYS], name_of(t), now) then
    id, body = adopt(jobs, KEYS[12], KEYS[13], name_of(t), id, now, i)
    redis.call('LREM', processing, 1, ids[i])
    redis.call('LPUSH', processing, id)
  elseif not body or misplaced then
    -- An id without a job, or a job that is running, delayed or dead: set aside where a person can look at it, never dropped at once.
    redis.call('LREM', processing, 1, id)
    redis.pcall('LPUSH', key(t, STRAYS), id)
    redis.pcall('LTRIM', key(t, STRAYS), 0, 9999)
    redis.call('ZADD', KEYS[12], 'GT', now, name_of(t))
    count(name_of(t), 'stray')
    strays[#strays + 1], body = t, nil
  end
  if body then
    seen[id] = true
    running[t] = (running[t] or 0) + 1
    local n, value = #taken, first_claim
    taken[n + 1], taken[n + 2], taken[n + 3] = t, id, body
    if deliveries > 0 then
      again[#again + 1] = n
      taken[n + 1], taken[n + 4], taken[n + 5] = -t, deliveries + 1, attempts + 1
      taken[n + 6], taken[n + 7] = '', ''
      value = (deliveries + 1) .. ':' .. (attempts + 1) .. ':' .. holder
    end
    claim[#claim + 1], claim[#claim + 2] = id, value
  end
end
for t, n in pairs(running) do count(name_of(t), 'running', n) end
if #claim == 0 then
  redis.call('ZREM', KEYS[4], holder)
else
  -- Redis keeps a HASH of up to 512 short values as one string, and walks through it for each of them. A long value makes
  -- it a table, which it stays as long as the key lives.
  local many_claims = #claim > 16
  if many_claims then redis.call('HSET', claims, '', string.rep(' ', 65)) end
  redis.call('HSET', claims, unpack(claim))
  if many_claims then redis.call('HDEL', claims, '') end
end
if #again > 0 then
  local names = {}
  for i, n in ipairs(again) do names[i] = taken[n + 2] end
  local failures, checkpoints = redis.call('HMGET', KEYS[6], unpack(names)), redis.call('HMGET', KEYS[7], unpack(names))
  for i, n in ipairs(again) do
    taken[n + 6], taken[n + 7] = failures[i] or '', checkpoints[i] or ''
  end
end
save_counts(KEYS[8])
return { now, drained, strays, taken, why }
