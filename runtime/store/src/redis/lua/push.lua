-- Stores new jobs of one partition: due ones ready, others delayed. All of them or, if Redis refuses, none. What jobs have in common
-- costs one command for all of them.
--
-- KEYS  1 to 14: see waiting; then a row per topic
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 number of topics, then their names in order
--       then the jobs: see read_new. At most 1,000 in all.
-- Returns of the jobs that are not stored: the position, counted from 1; 0 if the id is known, or the id that holds the unique value.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topics = {}
for t = 1, tonumber(ARGV[3]) do topics[t] = topic_row(ARGV[3 + t], 7 + 8 * t) end
local refused = insert(at, read_new(topics, 4 + #topics))
for _, topic in ipairs(topics) do announce(at, topic) end
save_counts(KEYS[6])
return refused
