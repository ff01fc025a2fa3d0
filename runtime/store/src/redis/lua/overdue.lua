-- Finds running jobs of one partition whose lease ran out, or that dead workers hold. Changes nothing.
--
-- KEYS  1 leases  2 jobs  3 claims  4 failures  5 checkpoints, then the processing lists of dead workers
-- ARGV  1 now, ms ('': the server's clock)  2 how many at most, up to 1,000
--       3 how many bytes of them at most, unless the first is larger, then the dead workers' ids
-- Returns { now in ms, { per job: id, stamp and envelope, delivery, attempt, worker, end of its lease in ms,
--           1 if its worker is dead or else 0, failure or '', checkpoint or '' } }
local now, left, room = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local found, seen = {}, {}

local function add(id, died)
  local deliveries, attempts, worker = parse_claim(redis.call('HGET', KEYS[3], id))
  local size = redis.call('HSTRLEN', KEYS[2], id)
  if left == 0 or seen[id] or size == 0 or worker == '' then return end
  size = size + redis.call('HSTRLEN', KEYS[4], id) + redis.call('HSTRLEN', KEYS[5], id)
  if size > room and #found > 0 then
    left = 0
    return
  end
  seen[id], left, room = true, left - 1, room - size
  for _, value in ipairs({ id, redis.call('HGET', KEYS[2], id), deliveries, attempts, worker,
                           redis.call('ZSCORE', KEYS[1], id) or '0', died, redis.call('HGET', KEYS[4], id) or '',
                           redis.call('HGET', KEYS[5], id) or '' }) do
    found[#found + 1] = value
  end
end

for w = 4, #ARGV do
  if left <= 0 then break end
  for _, id in ipairs(redis.call('LRANGE', KEYS[2 + w], -left, -1)) do add(id, 1) end
end
if left > 0 then
  -- Leases of dead workers run out, too: as many as are wanted in all hold what is left, after those found already.
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, tonumber(ARGV[2]))) do
    add(id, 0)
  end
end
return { now, found }
