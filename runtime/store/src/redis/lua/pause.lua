-- Stops or starts the handing out of a topic's jobs.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row
-- ARGV  1 wake channel  2 topic  3 '1': stop, '0': start
-- Returns 1 it was otherwise before, 0 it was like that already.
local at = partition(0, 0, ARGV[1])
local topic = topic_row(ARGV[2], 15)
despite_full_memory(at.due)
if ARGV[3] == '1' then
  redis.call('SREM', at.active, topic.name)
  return redis.call('SADD', at.paused, topic.name)
end
if redis.call('SREM', at.paused, topic.name) == 0 then return 0 end
if has_ready(topic) then wake(at, topic) end
return 1
