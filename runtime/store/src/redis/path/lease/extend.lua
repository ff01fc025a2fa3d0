-- Prolongs leases: that of a claim where all of its jobs that still run are named, else each job's own.
--
-- KEYS  1 claims  2 leases  3 extended, then the processing lists of claims
-- ARGV  1 now, ms ('': the server's clock)  2 lease in ms from now  3 number of claims, then their holders
--       then per job: id, delivery, index of its claim
-- Returns per job: 1 if it was extended, 0 if the lease is lost.
local now, claims = clock(ARGV[1]), {}
despite_full_memory(KEYS[2])
for c = 1, tonumber(ARGV[3]) do claims[c] = { list = KEYS[3 + c], holder = ARGV[3 + c], ids = {} } end
local answers, seen, lease = {}, {}, now + tonumber(ARGV[2])
for i = 4 + #claims, #ARGV, 3 do
  local id, claim = ARGV[i], claims[tonumber(ARGV[i + 2])]
  local ours = is_running(redis.call('HGET', KEYS[1], id), ARGV[i + 1], claim.holder)
  if ours and not seen[id] then claim.ids[#claim.ids + 1], seen[id] = id, true end
  answers[#answers + 1] = ours and 1 or 0
end
for _, claim in ipairs(claims) do
  if #claim.ids > 0 and redis.call('LLEN', claim.list) == #claim.ids then
    redis.call('ZADD', KEYS[2], lease, claim.holder)
    many('ZREM', KEYS[3], claim.ids)
  else
    local own = {}
    for _, id in ipairs(claim.ids) do own[#own + 1], own[#own + 2] = lease, id end
    many('ZADD', KEYS[3], own)
  end
end
return answers
