-- Forgets a topic without jobs. One that has some counts as used now.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row; 23 turns  24 strays  25 limited  26 rates  27 ended  28 pauses
--       29 recordings  30 recorded (where it is the tenant's first partition, which has them all)
-- ARGV  1 now, ms ('': the server's clock)  2 topic, then the names of all totals
-- Returns 1 the topic is forgotten, 0 it has jobs.
local now, up = clock(ARGV[1])
local at = partition(now, up, '')
local topic = topic_row(ARGV[2], 15)
local counts = KEYS[6]
despite_full_memory(at.due)
local running = tonumber(redis.call('HGET', counts, topic.name .. ':running') or 0)
if running > 0 or has_ready(topic) or redis.call('EXISTS', topic.delayed, topic.dead) > 0 then
  redis.call('ZADD', at.topics, 'XX', 'GT', now, topic.name)
  return 0
end
for _, key in ipairs({ at.active, at.paused }) do redis.call('SREM', key, topic.name) end
for _, key in ipairs({ at.topics, at.due, KEYS[25], KEYS[26] }) do redis.call('ZREM', key, topic.name) end
redis.call('ZREM', at.due, rate_of(topic.name))
redis.call('HDEL', KEYS[23], topic.name)
redis.call('HDEL', KEYS[28], topic.name)
redis.call('HDEL', at.per_key, topic.name, rate_of(topic.name))
redis.call('DEL', KEYS[24], KEYS[27], KEYS[29], KEYS[30], topic.waiters)
local totals = { topic.name .. ':running' }
for i = 3, #ARGV do totals[i - 1] = topic.name .. ':' .. ARGV[i] end
redis.call('HDEL', counts, unpack(totals))
return 1
