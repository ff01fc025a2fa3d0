-- Deletes dead jobs of one topic.
--
-- KEYS  1 dead  2 jobs  3 claims  4 failures  5 checkpoints  6 priorities  7 large
-- ARGV  ids
-- Returns per job: 1 deleted, 0 it was not dead.
local answers, deleted = {}, {}
for i, id in ipairs(ARGV) do
  answers[i] = redis.call('ZREM', KEYS[1], id)
  if answers[i] == 1 then deleted[#deleted + 1] = id end
end
if #deleted > 0 then finish({ jobs = KEYS[2], claims = KEYS[3], some = { KEYS[4], KEYS[5], KEYS[6], KEYS[7] } }, {}, deleted) end
return answers
