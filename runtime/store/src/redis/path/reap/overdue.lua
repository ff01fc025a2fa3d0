-- Finds running jobs of one partition whose lease ran out, or that dead workers hold. Changes nothing of them. Takes off the lists
-- what a claim or a settlement has left there that was stopped in its midst.
--
-- KEYS  1 leases  2 jobs  3 claims  4 failures  5 checkpoints  6 extended
--       then the processing lists of claims whose lease may have run out, and of dead workers
-- ARGV  1 now, ms ('': the server's clock)  2 how many at most, up to 1,000
--       3 how many bytes of them at most, unless the first is larger
--       then per list: its holder, 1 if its worker is dead or else 0
-- Returns { now in ms, { per job: id, stamp and envelope, delivery, attempt, holder, end of its lease in ms,
--           1 if its worker is dead or else 0, failure or '', checkpoint or '' } }
local now, left, room = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local found, seen = {}, {}

-- `claim`: what `claims` says of the job.
local function add(id, died, claim)
  local deliveries, attempts, holder = parse_claim(claim)
  local size = redis.call('HSTRLEN', KEYS[2], id)
  if left == 0 or seen[id] or size == 0 or holder == '' then return end
  size = size + redis.call('HSTRLEN', KEYS[4], id) + redis.call('HSTRLEN', KEYS[5], id)
  if size > room and #found > 0 then
    left = 0
    return
  end
  seen[id], left, room = true, left - 1, room - size
  for _, value in ipairs({ id, redis.call('HGET', KEYS[2], id), deliveries, attempts, holder,
                           lease_end(KEYS[1], KEYS[6], id, claim) or '0', died, redis.call('HGET', KEYS[4], id) or '',
                           redis.call('HGET', KEYS[5], id) or '' }) do
    found[#found + 1] = value
  end
end

-- Whether a job on the list of a claim is one that this claim runs. If not, its place is elsewhere, or it is gone.
local function is_held(id, claim, holder)
  local _, _, by = parse_claim(claim)
  if by ~= holder then return false end
  if redis.call('HEXISTS', KEYS[2], id) == 1 then return true end
  redis.call('HDEL', KEYS[3], id)
  return false
end

local function look_at(list, holder, died)
  local lease = tonumber(redis.call('ZSCORE', KEYS[1], holder) or 0)
  if died == 0 and lease > now then return end
  local ids, next_end = redis.call('LRANGE', list, 0, -1), math.huge
  local history = #ids > 0 and redis.call('HMGET', KEYS[3], unpack(ids))
  for i = #ids, 1, -1 do
    local id = ids[i]
    if is_held(id, history[i], holder) then
      local own = tonumber(redis.call('ZSCORE', KEYS[6], id) or lease)
      if died == 1 or own <= now then add(id, died, history[i]) end
      if left <= 0 then return end
      next_end = math.min(next_end, own)
    else
      redis.call('LREM', list, 0, id)
    end
  end
  if redis.call('EXISTS', list) == 0 then
    redis.call('ZREM', KEYS[1], holder)
  elseif lease <= now and next_end > now then
    -- All of its jobs have leases of their own by now: the claim need not be looked at before the first of these ends.
    redis.pcall('ZADD', KEYS[1], 'XX', next_end, holder)
  end
end

for i = 4, #ARGV, 2 do
  if left <= 0 then break end
  look_at(KEYS[6 + (i - 2) / 2], ARGV[i], tonumber(ARGV[i + 1]))
end
if left > 0 then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', now, 'LIMIT', 0, tonumber(ARGV[2]))) do
    add(id, 0, redis.call('HGET', KEYS[3], id))
  end
end
return { now, found }
