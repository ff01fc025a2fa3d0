-- Takes the oldest ready jobs of several topics of one partition and leases them to a worker.
--
-- KEYS  1 processing list of the worker  2 jobs  3 claims  4 leases  5 active  6 failures  7 checkpoints  8 counts
--       then per topic: ready, strays
-- ARGV  1 now, ms ('': the server's clock)  2 worker
--       then per topic: name, how many at most, lease in ms. At most 1,000 jobs in all.
-- Returns { now in ms, { indexes of drained topics }, { per stray: index of its topic },
--           { per job: index of its topic, id, stamp and envelope, delivery, attempt, failure or '', checkpoint or '' } }
local now = clock(ARGV[1])
local processing, jobs, claims, worker = KEYS[1], KEYS[2], KEYS[3], ARGV[2]

despite_full_memory(KEYS[4])
local ids, topic_of, drained = {}, {}, {}
for t = 1, (#ARGV - 2) / 3 do
  for _ = 1, tonumber(ARGV[3 * t + 1]) do
    local id = redis.call('RPOPLPUSH', KEYS[7 + 2 * t], processing)
    if not id then
      -- From here on, the next job to arrive is a transition that is published: no wake-up can be lost.
      redis.call('SREM', KEYS[5], ARGV[3 * t])
      drained[#drained + 1] = t
      break
    end
    ids[#ids + 1], topic_of[#topic_of + 1] = id, t
  end
end
if #ids == 0 then return { now, drained, {}, {} } end

local bodies, history = redis.call('HMGET', jobs, unpack(ids)), redis.call('HMGET', claims, unpack(ids))
local strays, taken, lease, claim, again, seen = {}, {}, {}, {}, {}, {}
for i, id in ipairs(ids) do
  local t = topic_of[i]
  local deliveries, attempts, holder = parse_claim(history[i])
  if not bodies[i] or holder ~= '' or seen[id] then
    -- No job, or one that is running already: set aside where a person can look at it, never dropped.
    redis.call('LREM', processing, 1, id)
    redis.call('LPUSH', KEYS[8 + 2 * t], id)
    count(ARGV[3 * t], 'stray')
    strays[#strays + 1] = t
  else
    seen[id] = true
    local n = #taken
    taken[n + 1], taken[n + 2], taken[n + 3] = t, id, bodies[i]
    taken[n + 4], taken[n + 5], taken[n + 6], taken[n + 7] = deliveries + 1, attempts + 1, '', ''
    if deliveries > 0 then again[#again + 1] = n end
    lease[#lease + 1], lease[#lease + 2] = now + tonumber(ARGV[3 * t + 2]), id
    claim[#claim + 1], claim[#claim + 2] = id, (deliveries + 1) .. ':' .. (attempts + 1) .. ':' .. worker
    count(ARGV[3 * t], 'running')
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
