-- Keeps the recording of an attempt at a job, or forgets those of some jobs. Drops those whose time is over, at most 1,000, and those
-- whose time is over first if there are too many bytes.
--
-- KEYS  1 recordings  2 recorded
-- ARGV  1 now, ms ('': the server's clock)  2 the recording, opaque bytes ('': forget)  3 for how long it is kept, ms
--       4 how many bytes all of them may have, then ids: one to keep, or those to forget
-- Returns { 1 }.
local now = clock(ARGV[1])
local most, total = tonumber(ARGV[4]), tonumber(redis.call('HGET', KEYS[1], '') or 0)
local function drop(id)
  total = total - redis.call('HSTRLEN', KEYS[1], id)
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
for i = 5, #ARGV do drop(ARGV[i]) end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1000)) do drop(id) end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[5], ARGV[2])
  redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[5])
  total = total + #ARGV[2]
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
if ARGV[2] ~= '' then
  for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
end
return { 1 }
