-- Stores new jobs of one partition: due ones ready, others delayed. All of them or, if Redis refuses, none.
--
-- KEYS  1 to 9: see waiting; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 number of topics, then their names in order
--       then per job: index of its topic, id, due ('': now, '+n': in n ms, 'n': at n ms), priority ('': normal),
--         unique value ('': none, ':value': until the job is over, 'n:value': for n ms), envelope
-- Returns per job: 1 stored, 0 the id is known, or the id that holds the unique value.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topics = {}
for t = 1, tonumber(ARGV[3]) do topics[t] = topic_row(ARGV[3 + t], 2 + 8 * t) end
for i = 4 + #topics, #ARGV, 6 do expect_place(topics[tonumber(ARGV[i])], ARGV[i + 2], ARGV[i + 3]) end

local answers = {}
for i = 4 + #topics, #ARGV, 6 do
  answers[#answers + 1] =
    insert(at, topics[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
end
for _, topic in ipairs(topics) do announce(at, topic) end
save_counts(KEYS[6])
return answers
