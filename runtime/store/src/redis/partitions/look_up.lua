-- Looks up jobs of one topic in a partition that its new jobs do not go to any more. Counts duplicates.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row
-- ARGV  1 now, ms ('': the server's clock)  2 topic, then per job: id or '', unique value or ''
-- Returns 1 if no job and no unique value of the topic is left or else 0, then per job: its id if that is known, or the id that
--         holds the unique value, or ''.
local now, up = clock(ARGV[1])
local at = partition(now, up, '')
local topic = topic_row(ARGV[2], 15)
local running = tonumber(redis.call('HGET', KEYS[6], topic.name .. ':running') or 0)
local some = has_ready(topic) or running > 0 or redis.call('EXISTS', topic.delayed, topic.dead, topic.unique) > 0

local answers = { some and 0 or 1 }
for i = 3, #ARGV, 2 do
  local id, value, found = ARGV[i], ARGV[i + 1], nil
  if id ~= '' and redis.call('HEXISTS', at.jobs, id) == 1 then
    found = id
  elseif value ~= '' then
    found = holder_of(at, topic, value, redis.call('HGET', topic.unique, value))
    if found and id ~= '' then count(topic.name, 'duplicate') end
  end
  answers[#answers + 1] = found or ''
end
save_counts(KEYS[6])
return answers
