-- Ends attempts that succeeded and leave nothing behind: the common case of settle, with one command for many jobs.
--
-- KEYS  1 processing list of the worker  2 jobs  3 claims  4 leases  5 counts
--       6 failures  7 checkpoints  8 priorities  9 cancelled
-- ARGV  1 worker  2 number of topics, then their names in order
--       then per job: id, delivery, index of its topic. At most 1,000 jobs.
-- Returns per job: 1 done, 0 the lease is lost and nothing was changed.
local worker, topics = ARGV[1], tonumber(ARGV[2])
local asked = {}
for i = 3 + topics, #ARGV, 3 do asked[#asked + 1] = ARGV[i] end
local history = redis.call('HMGET', KEYS[3], unpack(asked))

local answers, done, acked, seen = {}, {}, {}, {}
for i, id in ipairs(asked) do
  local at = topics + 3 * i
  if not seen[id] and is_running(history[i], ARGV[at + 1], worker) then
    seen[id] = true
    redis.call('LREM', KEYS[1], -1, id)
    local t = tonumber(ARGV[at + 2])
    acked[t] = (acked[t] or 0) + 1
    done[#done + 1], answers[i] = id, 1
  else
    answers[i] = 0
  end
end
if #done == 0 then return answers end

redis.call('ZREM', KEYS[4], unpack(done))
redis.call('HDEL', KEYS[2], unpack(done))
redis.call('HDEL', KEYS[3], unpack(done))
-- Asking whether there are any at all is cheaper than naming every job once more.
if redis.call('EXISTS', KEYS[6], KEYS[7], KEYS[8], KEYS[9]) > 0 then
  for k = 6, 9 do
    if redis.call('EXISTS', KEYS[k]) == 1 then redis.call(k == 9 and 'SREM' or 'HDEL', KEYS[k], unpack(done)) end
  end
end
for t, n in pairs(acked) do
  count(ARGV[2 + t], 'acked', n)
  count(ARGV[2 + t], 'running', -n)
end
save_counts(KEYS[5])
return answers
