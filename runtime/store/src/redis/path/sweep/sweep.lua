-- Drops what has outlived its limits: dead jobs over age or number, and unique values held for a time that has passed.
-- At most 1,000 of each a topic.
--
-- KEYS  1 to 14: see waiting; 15 claims  16 failures  17 checkpoints; then a row per topic; then an ended key per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel, then per topic: name, how many of the latest dead jobs stay, how long in ms
-- Returns per topic: the ids of the dead jobs that were dropped.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
despite_full_memory(at.due)
local stored = { jobs = at.jobs, claims = KEYS[15], some = { KEYS[16], KEYS[17], at.priorities, at.large } }

local answers, topics = {}, (#ARGV - 2) / 3
for t = 1, topics do
  local topic, keep, retention = topic_row(ARGV[3 * t], 10 + 8 * t), tonumber(ARGV[3 * t + 1]), tonumber(ARGV[3 * t + 2])
  purge_windows(at, topic, 1000)
  local dead = redis.call('ZCARD', topic.dead)
  local aged = redis.call('ZCOUNT', topic.dead, '-inf', now - retention)
  local over = math.min(math.max(dead - keep, aged), 1000)
  answers[t] = {}
  -- Both limits take the oldest first.
  if over > 0 then
    local ids = redis.call('ZRANGE', topic.dead, 0, over - 1)
    answers[t] = ids
    many('ZREM', topic.dead, ids)
    local history = ask('HMGET', stored.claims, ids)
    finish(stored, { [topic.name] = #ids }, ids, 'discarded')
    remember_each(KEYS[17 + 8 * topics + t], ids, history, 'd', span_of_end(now), 2 * ENDED_RETENTION)
    for _, id in ipairs(ids) do
      free_slots(at, topic, { id }, true)
      note_end(id)
    end
    announce(at, topic)
  end
  if redis.call('EXISTS', topic.dead, topic.windows) == 0 then redis.call('SREM', at.perishable, topic.name) end
end
carry_ends(at)
save_counts(KEYS[6])
return answers
