-- Stores new jobs of one partition: due ones ready, others delayed. All of them or, if Redis refuses, none.
--
-- KEYS  1 jobs  2 active  3 due  4 topics  5 counts
--       then per topic: ready, delayed, unique
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 number of topics, then their names in order
--       then per job: index of its topic, id, due ('': now, '+n': in n ms, 'n': at n ms), unique value ('': none), envelope
-- Returns per job: 1 stored, 0 the id is known, or the id that holds the unique value.
local now, up = clock(ARGV[1])
local at = { now = now, up = up, jobs = KEYS[1], active = KEYS[2], due = KEYS[3], topics = KEYS[4], wake = ARGV[2] }
local topics = {}
for t = 1, tonumber(ARGV[3]) do
  local first = 3 + 3 * t
  topics[t] = { name = ARGV[3 + t], ready = KEYS[first], delayed = KEYS[first + 1], unique = KEYS[first + 2],
                arrived = {}, later = {} }
end

local answers = {}
for i = 4 + #topics, #ARGV, 5 do
  answers[#answers + 1] = insert(at, topics[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
end
for _, topic in ipairs(topics) do announce(at, topic) end
save_counts(KEYS[5])
return answers
