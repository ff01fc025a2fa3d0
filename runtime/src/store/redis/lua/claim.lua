-- Takes ready jobs of several topics of one partition and leases them to a worker: by turns of priority, oldest first.
--
-- KEYS  1 processing list of the worker  2 jobs  3 claims  4 leases  5 active  6 failures  7 checkpoints  8 counts
--       9 priorities  10 paused  11 turns  12 topics
--       then per topic: ready of high, normal and low priority, delayed, dead, strays
-- ARGV  1 now, ms ('': the server's clock)  2 worker  3 whose turn it is, one after the other: 1 high, 2 normal, 3 low
--       then per topic: name, how many at most, lease in ms. At most 1,000 jobs in all.
-- Returns { now in ms, { indexes of drained topics }, { per stray: index of its topic },
--           { per job: index of its topic, id, stamp and envelope, delivery, attempt, failure or '', checkpoint or '' } }
local now = clock(ARGV[1])
local processing, jobs, claims, worker = KEYS[1], KEYS[2], KEYS[3], ARGV[2]

despite_full_memory(KEYS[4])
local delayed, drained = {}, {}

for t = 1, (#ARGV - 3) / 3 do
  local name, max, before = ARGV[3 * t + 1], tonumber(ARGV[3 * t + 2]), #ids
  take_line(t, name, max)
  if #ids - before < max then
    -- From here on, the next job to arrive is a transition that is published: no wake-up can be lost.
    redis.call('SREM', KEYS[5], name)
    drained[#drained + 1] = t
  end
  -- Others write to these Lists too, and might name a job that is not due yet.
  if #ids > before and redis.call('EXISTS', key(t, DELAYED)) == 1 then
    for i, due in ipairs(redis.call('ZMSCORE', key(t, DELAYED), unpack(ids, before + 1))) do delayed[before + i] = due end
  end
end
if #ids == 0 then return { now, drained, {}, {} } end

local bodies, history = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', claims, unpack(ids))
local strays, taken, lease, claim, again, seen = {}, {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  local t = topic_of[i]
  local body, deliveries, attempts, holder = bodies[i], parse_claim(history[i])
  local misplaced = seen[id] or holder ~= '' or delayed[i] or deliveries > 0 and redis.call('ZSCORE', key(t, DEAD), id)
  if not body then
    id, body = adopt(jobs, KEYS[12], ARGV[3 * t + 1], id, now, i)
    redis.call('LREM', processing, 1, ids[i])
    redis.call('LPUSH', processing, id)
  elseif misplaced then
    -- A job that is running, delayed or dead: set aside where a person can look at it, never dropped at once.
    redis.call('LREM', processing, 1, id)
    redis.call('LPUSH', key(t, STRAYS), id)
    redis.call('LTRIM', key(t, STRAYS), 0, 9999)
    count(ARGV[3 * t + 1], 'stray')
    strays[#strays + 1], body = t, nil
  end
  if body then
    seen[id] = true
    local n = #taken
    taken[n + 1], taken[n + 2], taken[n + 3] = t, id, body
    taken[n + 4], taken[n + 5], taken[n + 6], taken[n + 7] = deliveries + 1, attempts + 1, '', ''
    if deliveries > 0 then again[#again + 1] = n end
    lease[#lease + 1], lease[#lease + 2] = now + tonumber(ARGV[3 * t + 3]), id
    claim[#claim + 1], claim[#claim + 2] = id, (deliveries + 1) .. ':' .. (attempts + 1) .. ':' .. worker
    count(ARGV[3 * t + 1], 'running')
  end
end
if #lease > 0 then
  redis.call('ZADD', KEYS[4], unpack(lease))
  redis.call('HSET', claims, unpack(claim))
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
return { now, drained, strays, taken }
