-- When the jobs at the heads of topics' ready Lists first became due. Changes nothing.
--
-- KEYS  1 jobs, then the Lists
-- Returns per List: that time in ms, or '' if there is none: the List is empty, or no job is at its head.
local answers = {}
for i = 2, #KEYS do
  local id = redis.call('LINDEX', KEYS[i], -1)
  local stored = id and redis.call('HGET', KEYS[1], id)
  answers[i - 1] = stored and #stored >= 16 and string.format('%.0f', (stamped_due(stored))) or ''
end
return answers
