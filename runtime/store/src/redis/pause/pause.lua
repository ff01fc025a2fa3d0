-- Stops or starts the handing out of a topic's jobs.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row; 23 pauses
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic  4 '1': stop, '0': start  5 who does, '' if that is not known
-- Returns 1 it was otherwise before, 0 it was like that already.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic = topic_row(ARGV[3], 15)
despite_full_memory(at.due)
if ARGV[4] == '1' then
  redis.call('SREM', at.active, topic.name)
  if redis.call('SADD', at.paused, topic.name) == 0 then return 0 end
  redis.call('HSET', KEYS[23], topic.name, string.format('%.0f %s', now, ARGV[5]))
  return 1
end
redis.call('HDEL', KEYS[23], topic.name)
if redis.call('SREM', at.paused, topic.name) == 0 then return 0 end
if has_ready(topic) then wake(at, topic) end
return 1
