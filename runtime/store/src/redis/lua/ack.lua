-- Ends attempts that succeeded and leave nothing behind: the common case of settle, with one command for many jobs.
--
-- KEYS  1 jobs  2 claims  3 leases  4 counts  5 failures  6 checkpoints  7 priorities  8 large  9 cancelled  10 extended
--       11 record of this call, then the processing lists of claims
-- ARGV  1 number of this call  2 number of claims, then their holders
--       then groups of jobs: index of their claim, topic, delivery, number of jobs, their ids. At most 1,000 jobs in all.
-- Returns the places, counted from 1 over all jobs, of those whose lease is lost; of them nothing was changed.
local claims, asked, groups = {}, {}, {}
for c = 1, tonumber(ARGV[2]) do claims[c] = { list = KEYS[11 + c], holder = ARGV[2 + c], done = {} } end
local cursor = 3 + #claims
while cursor < #ARGV do
  local group = { claim = claims[tonumber(ARGV[cursor])], topic = ARGV[cursor + 1], delivery = ARGV[cursor + 2],
                  first = #asked + 1 }
  local last = cursor + 3 + tonumber(ARGV[cursor + 3])
  for i = cursor + 4, last do asked[#asked + 1] = ARGV[i] end
  group.last, groups[#groups + 1], cursor = #asked, group, last + 1
end
local history = redis.call('HMGET', KEYS[2], unpack(asked))

local lost, done, ended, topics = {}, {}, {}, {}
for _, group in ipairs(groups) do
  -- What the claim of a job says that was never given back: comparing is cheaper than taking each apart.
  local holder, done_of = group.claim.holder, group.claim.done
  local usual = group.delivery .. ':' .. group.delivery .. ':' .. holder
  local before = #done
  for i = group.first, group.last do
    local id = asked[i]
    if not ended[id] and (history[i] == usual or is_running(history[i], group.delivery, holder)) then
      done[#done + 1], done_of[#done_of + 1], ended[id] = id, id, true
    else
      lost[#lost + 1] = i
    end
  end
  topics[group.topic] = (topics[group.topic] or 0) + #done - before
  count(group.topic, 'running', before - #done)
end
if #done == 0 then return lost end

for _, claim in ipairs(claims) do leave(KEYS[3], claim.list, claim.holder, claim.done) end
finish({ jobs = KEYS[1], claims = KEYS[2], some = { unpack(KEYS, 5, 10) } }, topics, done, 'acked')
save_counts(KEYS[4])
keep_answers(KEYS[11], ARGV[1], lost)
return lost
