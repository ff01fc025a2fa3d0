-- Deletes dead jobs of one topic.
--
-- KEYS  1 to 13: see waiting; 14 to 21: the topic's row  22 claims  23 failures  24 checkpoints
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic, then ids
-- Returns per job: 1 deleted, 0 it was not dead.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic, answers, deleted = topic_row(ARGV[3], 14), {}, {}
for i = 4, #ARGV do
  local id = ARGV[i]
  answers[i - 3] = redis.call('ZREM', topic.dead, id)
  if answers[i - 3] == 1 then
    deleted[#deleted + 1] = id
    forget_key(at, topic, id)
  end
end
local stored = { jobs = at.jobs, claims = KEYS[22], some = { KEYS[23], KEYS[24], at.priorities, at.large } }
if #deleted > 0 then finish(stored, {}, deleted) end
announce(at, topic)
return answers
