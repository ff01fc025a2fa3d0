-- Prolongs leases.
--
-- KEYS  1 claims  2 leases
-- ARGV  1 now, ms ('': the server's clock)  2 lease in ms from now, then per job: id, delivery, worker
-- Returns per job: 1 if it was extended, 0 if the lease is lost.
local now = clock(ARGV[1])
despite_full_memory(KEYS[2])
local answers = {}
for i = 3, #ARGV, 3 do
  local ours = is_running(redis.call('HGET', KEYS[1], ARGV[i]), ARGV[i + 1], ARGV[i + 2])
  if ours then redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[i]) end
  answers[#answers + 1] = ours and 1 or 0
end
return answers
