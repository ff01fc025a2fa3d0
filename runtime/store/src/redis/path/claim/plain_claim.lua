-- Put in front of claim and of all that it builds upon, whose KEYS and ARGV it reads: a claim that takes only ordinary jobs. Most claims are like
-- that, and so pay for no function and no question that only others need.

-- Writes what `claims` says of so many jobs.
local function save_claims(claims, values, n)
  -- Redis keeps a HASH of up to 512 short values as one string, and walks through it for each of them. A long value makes
  -- it a table, which it stays as long as the key lives.
  if n > 16 then redis.call('HSET', claims, '', string.rep(' ', 65)) end
  redis.call('HSET', claims, unpack(values))
  if n > 16 then redis.call('HDEL', claims, '') end
end

-- What is returned of jobs that were claimed before: `again` has for each its position, delivery and attempt.
local function known_before(again, ids, failures, checkpoints)
  if #again == 0 then return {} end
  local names, before = {}, {}
  for i, job in ipairs(again) do names[i] = ids[job[1]] end
  local failed, stored = redis.call('HMGET', failures, unpack(names)), redis.call('HMGET', checkpoints, unpack(names))
  for i, job in ipairs(again) do
    for _, value in ipairs(job) do before[#before + 1] = value end
    before[#before + 1], before[#before + 2] = failed[i] or '', stored[i] or ''
  end
  return before
end

-- How many elements of a List are read first, and how long an id is at most: as in turns.
local FIRST_READ, ID_MAX = 16, 64

-- Returns what claim returns, with `false` for an empty list. Nil, and nothing has changed, if claim has to look closer: at a limit, a priority, a
-- pause, a large job, a rate of keys, raw producers; at an element that is no job, or one that runs, is delayed, dead or here twice; at a
-- number of a claim that is used; at a lack of room.
local function claim_plain()
  local topics, holder, channel = (#ARGV - 9) / 3, ARGV[2], ARGV[#ARGV]
  local processing, jobs, claims, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
  if ARGV[#ARGV - 1] ~= '' then return nil end
  local special, SPECIAL = { processing, KEYS[9], KEYS[10], KEYS[13], KEYS[17], KEYS[18], KEYS[#KEYS] }, 7
  for t = 1, topics do
    if ARGV[3 * t + 6] ~= '' then return nil end
    special[SPECIAL + t] = KEYS[18 + 7 * t]
  end
  local some_delayed = redis.call('EXISTS', unpack(special)) > 0
  if some_delayed and redis.call('EXISTS', unpack(special, 1, SPECIAL)) > 0 then return nil end

  local n, ids, bodies, values, seen, first_claim = 0, {}, {}, {}, {}, '1:1:' .. holder
  local room, read_next, last_of, again = tonumber(ARGV[4]), FIRST_READ, {}, {}
  for t = 1, topics do
    local most, before = tonumber(ARGV[3 * t + 5]), n
    while n - before < most do
      local asked, last = math.min(read_next, most - n + before), before - n - 1
      local read = redis.pcall('LRANGE', KEYS[16 + 7 * t], last + 1 - asked, last)
      if read.err then return nil end
      if #read == 0 then break end
      local stored, history = redis.call('HMGET', jobs, unpack(read)), redis.call('HMGET', claims, unpack(read))
      for i = #read, 1, -1 do
        local id, body, claim, value = read[i], stored[i], history[i], first_claim
        if not body or seen[id] or #id > ID_MAX then return nil end
        n, room, seen[id] = n + 1, room - #id - #body, true
        if claim then
          local deliveries, attempts = string.match(claim, '^(%d+):(%d+):$')
          if not deliveries or deliveries == '0' then return nil end
          if type(redis.pcall('ZSCORE', KEYS[19 + 7 * t], id)) == 'string' then return nil end
          deliveries, attempts = deliveries + 1, attempts + 1
          value, again[#again + 1] = deliveries .. ':' .. attempts .. ':' .. holder, { n, deliveries, attempts }
          room = room - redis.call('HSTRLEN', KEYS[6], id) - redis.call('HSTRLEN', KEYS[7], id)
        end
        ids[n], bodies[n], values[2 * n - 1], values[2 * n] = id, body, id, value
      end
      if room < 0 then return nil end
      for _, due in ipairs(some_delayed and redis.pcall('ZMSCORE', special[SPECIAL + t], unpack(read)) or {}) do
        if due then return nil end
      end
      if #read < asked then break end
      read_next = read_next * 4
    end
    last_of[t] = n
  end

  local now = clock(ARGV[1])
  despite_full_memory(leases)
  if n > 0 then
    redis.call('ZADD', leases, now + tonumber(ARGV[5]), holder)
    redis.call('LPUSH', processing, unpack(ids))
    save_claims(claims, values, n)
  end
  -- RPOPLPUSH for all of them at once: a script is one step, so this is as safe.
  for t = 1, topics do
    local taken = last_of[t] - (last_of[t - 1] or 0)
    if taken > 0 then redis.call('LTRIM', KEYS[16 + 7 * t], '0', -taken - 1) end
  end
  local drained, runs = {}, {}
  for t = 1, topics do
    local name, taken, waiters = ARGV[3 * t + 4], last_of[t] - (last_of[t - 1] or 0), KEYS[21 + 7 * t]
    if taken > 0 then
      runs[#runs + 1], runs[#runs + 2] = t, taken
      count(name, 'running', taken)
    end
    if taken < tonumber(ARGV[3 * t + 5]) then
      -- From here on, the next job to arrive is a transition that is published: no wake-up can be lost.
      redis.call('SREM', KEYS[5], name)
      if channel ~= '' then redis.pcall('ZADD', waiters, 'NX', now, channel) end
      drained[#drained + 1] = t
    else
      -- There may be more: the next runner takes its part, and wakes another one.
      wake_one(waiters, ready_message(jobs, name))
    end
  end
  save_counts(KEYS[8])
  return { now, #drained > 0 and drained, false, table.concat(ids, ' '), bodies, runs, #again > 0 and known_before(again, ids, KEYS[6], KEYS[7]), false }
end

local plain_reply = claim_plain()
if plain_reply then return plain_reply end
