-- Stores new jobs of one partition that are due now, of normal priority, and hold no unique value: the common case of push, with
-- one command for many jobs. All of them or, if Redis refuses, none.
--
-- KEYS  1 to 9: see waiting; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 number of topics, then their names in order
--       then jobs, those that follow each other in one topic together: index of the topic, how many, and of each id, envelope.
--       At most 1,000 jobs in all.
-- Returns the positions, counted from 1 over all jobs, of those whose id is known; of them nothing was changed.
local now, up = clock(ARGV[1])
local at, topics = partition(now, up, ARGV[2]), {}
for t = 1, tonumber(ARGV[3]) do
  topics[t] = topic_row(ARGV[3 + t], 2 + 8 * t)
  expect_place(topics[t], '', 'normal')
end
local ids, envelopes, topic_of = {}, {}, {}
local cursor, jobs = 4 + #topics, 0
while cursor < #ARGV do
  local topic, last = topics[tonumber(ARGV[cursor])], cursor + 1 + 2 * ARGV[cursor + 1]
  for i = cursor + 2, last, 2 do
    jobs = jobs + 1
    ids[jobs], envelopes[jobs], topic_of[jobs] = ARGV[i], ARGV[i + 1], topic
  end
  cursor = last + 1
end

-- What is stored of known jobs is read, too: but not of large ones. No job has an empty id.
local large, small = redis.call('EXISTS', at.large) == 1 and redis.call('SMISMEMBER', at.large, unpack(ids)), ids
if large then
  small = {}
  for i, id in ipairs(ids) do small[i] = large[i] == 1 and '' or id end
end
local stored = redis.call('HMGET', at.jobs, unpack(small))

local stamp, known, new, seen = struct.pack('>I8I8', now, now), {}, {}, {}
for i, id in ipairs(ids) do
  if stored[i] or seen[id] or large and large[i] == 1 then
    known[#known + 1] = i
  else
    local job, n = stamp .. envelopes[i], #new
    note_large(at.large, id, job)
    seen[id], new[n + 1], new[n + 2] = true, id, job
    wait(at, topic_of[i], id, now, 'normal')
  end
end
if #new == 0 then return known end
many('HSET', at.jobs, new)
for _, topic in ipairs(topics) do
  count(topic.name, 'pushed', #(topic.arrived.normal or {}))
  announce(at, topic)
end
save_counts(KEYS[6])
return known
