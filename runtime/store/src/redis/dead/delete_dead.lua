-- Deletes dead jobs of one topic.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row  23 claims  24 failures  25 checkpoints  26 ended
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic, then ids
-- Returns per job: 1 deleted, 0 it was not dead.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic, answers, deleted = topic_row(ARGV[3], 15), {}, {}
for i = 4, #ARGV do
  local id = ARGV[i]
  answers[i - 3] = redis.call('ZREM', topic.dead, id)
  if answers[i - 3] == 1 then
    deleted[#deleted + 1] = id
    free_slots(at, topic, { id }, true)
    note_end(id)
  end
end
local stored = { jobs = at.jobs, claims = KEYS[23], some = { KEYS[24], KEYS[25], at.priorities, at.large } }
if #deleted > 0 then
  local history = ask('HMGET', stored.claims, deleted)
  finish(stored, {}, deleted)
  remember_each(KEYS[26], deleted, history, 'd', span_of_end(now), 2 * ENDED_RETENTION)
end
announce(at, topic)
carry_ends(at)
return answers
