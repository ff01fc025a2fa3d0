-- Keeps recordings of attempts at jobs, or forgets those of some jobs. Drops those whose time is over, at most 1,000, and those whose
-- time is over first if there are too many bytes.
--
-- KEYS  1 recordings  2 recorded
-- ARGV  1 now, ms ('': the server's clock)  2 for how long they are kept, ms  3 how many bytes all of them may have
--       then for each job: its id, the recording, opaque bytes ('': forget)
-- Returns { 1 }.
local now = clock(ARGV[1])
local most, total = tonumber(ARGV[3]), tonumber(redis.call('HGET', KEYS[1], '') or 0)
local function drop(id)
  total = total - redis.call('HSTRLEN', KEYS[1], id)
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1000)) do drop(id) end
local kept = false
for i = 4, #ARGV, 2 do
  local id, recording = ARGV[i], ARGV[i + 1]
  if recording == '' then
    drop(id)
  else
    total = total - redis.call('HSTRLEN', KEYS[1], id) + #recording
    redis.call('HSET', KEYS[1], id, recording)
    redis.call('ZADD', KEYS[2], now + ARGV[2], id)
    kept = true
  end
end
while total > most do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not oldest then break end
  drop(oldest)
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1])
  return { 1 }
end
redis.call('HSET', KEYS[1], '', total)
if kept then
  for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
end
return { 1 }
