-- Stores new jobs of one partition: due ones ready, others delayed. All of them or, if Redis refuses, none. What jobs have in common
-- costs one command for all of them.
--
-- KEYS  1 to 14: see waiting; then a row per topic; then those that read_links() names; last, the results of earlier jobs with the same ids
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 'follow': the jobs follow attempts that have ended, and none is refused because of
--       what it is to wait for; 'claimed': a claim of these topics comes right behind, no runner is woken for them  4 number of topics, then their names in order
--       number of jobs whose ids earlier jobs may have had, then their positions among the jobs
--       then the jobs: see read_new. At most 1,000 in all.
-- Returns what insert() does.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topics = {}
for t = 1, tonumber(ARGV[4]) do
  topics[t] = topic_row(ARGV[4 + t], 7 + 8 * t)
  topics[t].is_claimed = ARGV[3] == 'claimed'
end
local reused = tonumber(ARGV[5 + #topics])
local new = read_new(topics, 6 + #topics + reused)
new.follow = ARGV[3] == 'follow'
local refused = insert(at, new)
for _, topic in ipairs(topics) do announce(at, topic) end
local is_refused = {}
for i = 1, #refused, 2 do is_refused[refused[i]] = true end
for i = 1, reused do
  -- What is kept of an earlier job is not what becomes of this one.
  if not is_refused[tonumber(ARGV[5 + #topics + i])] then redis.call('DEL', KEYS[#KEYS - reused + i]) end
end
save_counts(KEYS[6])
return refused
