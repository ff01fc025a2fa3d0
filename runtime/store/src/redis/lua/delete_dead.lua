-- Deletes dead jobs of one topic.
--
-- KEYS  1 dead  2 jobs  3 claims  4 failures  5 checkpoints  6 priorities
-- ARGV  ids
-- Returns per job: 1 deleted, 0 it was not dead.
local answers = {}
for i, id in ipairs(ARGV) do
  answers[i] = redis.call('ZREM', KEYS[1], id)
  if answers[i] == 1 then forget({ KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6] }, id) end
end
return answers
