-- Forgets a topic without jobs.
--
-- KEYS  1 to 8: see waiting; 9 to 15: the topic's row; 16 turns  17 strays
-- ARGV  1 topic
-- Returns 1 the topic is forgotten, 0 it has jobs.
local at = partition(0, 0, '')
local topic = topic_row(ARGV[1], 9)
local counts = KEYS[6]
local running = tonumber(redis.call('HGET', counts, topic.name .. ':running') or 0)
if running > 0 or has_ready(topic) or redis.call('EXISTS', topic.delayed, topic.dead) > 0 then return 0 end
for _, key in ipairs({ at.active, at.paused, at.topics }) do redis.call('SREM', key, topic.name) end
redis.call('ZREM', at.due, topic.name)
redis.call('HDEL', KEYS[16], topic.name)
redis.call('DEL', KEYS[17])
local totals, prefix = {}, topic.name .. ':'
for _, name in ipairs(redis.call('HKEYS', counts)) do
  if string.sub(name, 1, #prefix) == prefix then totals[#totals + 1] = name end
end
many('HDEL', counts, totals)
return 1
