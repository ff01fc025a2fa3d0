-- Ends attempts that succeeded and leave nothing behind: the common case of settle, with one command for many jobs.
--
-- KEYS  1 processing list of the worker  2 jobs  3 claims  4 leases  5 counts
--       6 failures  7 checkpoints  8 priorities  9 large  10 cancelled  11 record of this call
-- ARGV  1 worker  2 number of this call, then groups of jobs: topic, delivery, number of jobs, their ids. At most 1,000 jobs in all.
-- Returns the places, counted from 1 over all jobs, of those whose lease is lost; of them nothing was changed.
local worker = ARGV[1]
local asked, groups = {}, {}
local cursor = 3
while cursor < #ARGV do
  local group = { topic = ARGV[cursor], delivery = ARGV[cursor + 1], first = #asked + 1 }
  local last = cursor + 2 + tonumber(ARGV[cursor + 2])
  for i = cursor + 3, last do asked[#asked + 1] = ARGV[i] end
  group.last, groups[#groups + 1], cursor = #asked, group, last + 1
end
local history = redis.call('HMGET', KEYS[3], unpack(asked))

local lost, done, ended, topics = {}, {}, {}, {}
for _, group in ipairs(groups) do
  -- What the claim of a job says that was never given back: comparing is cheaper than taking each apart.
  local usual = group.delivery .. ':' .. group.delivery .. ':' .. worker
  local before = #done
  for i = group.first, group.last do
    local id = asked[i]
    if not ended[id] and (history[i] == usual or is_running(history[i], group.delivery, worker)) then
      done[#done + 1], ended[id] = id, true
    else
      lost[#lost + 1] = i
    end
  end
  topics[group.topic] = (topics[group.topic] or 0) + #done - before
  count(group.topic, 'running', before - #done)
end
if #done == 0 then return lost end

-- They are most likely among the worker's oldest. Taking these off and putting back what goes on is three commands,
-- however many have ended; looking for each is one per job, and a long way into the List.
local oldest = redis.call('LRANGE', KEYS[1], -2 * #done, -1)
local going_on, off = {}, 0
for _, id in ipairs(oldest) do
  if ended[id] then ended[id], off = 'off', off + 1 else going_on[#going_on + 1] = id end
end
if off > 0 then
  redis.call('LTRIM', KEYS[1], 0, -1 - #oldest)
  if #going_on > 0 then redis.call('RPUSH', KEYS[1], unpack(going_on)) end
end
if off < #done then
  for _, id in ipairs(done) do
    if ended[id] ~= 'off' then redis.call('LREM', KEYS[1], -1, id) end
  end
end

redis.call('ZREM', KEYS[4], unpack(done))
local stored = { jobs = KEYS[2], claims = KEYS[3], some = { KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10] } }
finish(stored, topics, done, 'acked')
save_counts(KEYS[5])
keep_answers(KEYS[11], ARGV[2], lost)
return lost
