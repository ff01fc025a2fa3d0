-- Put after waiting. What is known of a topic, at one moment. Changes nothing.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row; 23 limited
-- ARGV  1 topic
-- Returns how many elements its ready Lists have; the first score of its delayed jobs or ''; how many are dead; how many windows there
--   are; 1 if it is active; 1 if it is paused; its score in `due` or ''; that of its rate or ''; 1 if it is perishable; its score in `limited` or '';
--   how many jobs run
local at, topic = partition(0, 0, ''), topic_row(ARGV[1], 15)
local ready = 0
for _, line in pairs(topic.ready) do ready = ready + redis.call('LLEN', line) end
return { ready, next_due(topic) and string.format('%.17g', next_due(topic)) or '', redis.call('ZCARD', topic.dead),
         redis.call('ZCARD', topic.windows), redis.call('SISMEMBER', at.active, topic.name),
         redis.call('SISMEMBER', at.paused, topic.name), redis.call('ZSCORE', at.due, topic.name) or '',
         redis.call('ZSCORE', at.due, rate_of(topic.name)) or '', redis.call('SISMEMBER', at.perishable, topic.name),
         redis.call('ZSCORE', KEYS[23], topic.name) or '', redis.call('HGET', KEYS[6], topic.name .. ':running') or '0' }
