-- Ends attempts with any verdict: the job's new place, its result, its follow-up jobs and the counts in one step.
--
-- In order:
--   0. make a write that changes nothing, so that a full server takes the rest; read where jobs are put
--   1. for each settlement, of which none may be of a lost lease: put the job back, bury it, or note that it is gone, and write its
--      result; then store its follow-up jobs, but first remove what is noted where one of them may need its place
--   2. once: remove jobs that are gone; set unique values free; take the jobs off the lists of their claims; announce what waits;
--      write the counts and the record of this call
--
-- KEYS  1 to 9: see waiting; 10 claims  11 leases  12 failures  13 checkpoints  14 cancelled
--       15 extended  16 record of this call, then the processing lists of claims; then a row per topic; then the result keys
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 done channel  4 number of this call
--       5 number of claims, then their holders in order; number of topics, then their names in order
--       then per settlement, 14: id, delivery, index of its claim, index of topic, verdict (ack retry snooze release bury
--         expire), wait in ms, failure or '', reason or '', unique value or '', index in KEYS of the result key or '',
--         result or '', keep it for ms, notify of the end ('1' or ''), guard ('': none, 'lease': only if the lease ran out)
--       then number of follow-ups; per follow-up, 6: as in push
-- Returns per settlement: 1 done, 2 the job was cancelled meanwhile and is gone, 0 the lease is lost and nothing was changed.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local claims, leases, failures, checkpoints, cancelled = KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local stored = { jobs = at.jobs, claims = claims, some = { failures, checkpoints, at.priorities, at.large } }
local extended = KEYS[15]
despite_full_memory(leases)
local some_cancelled, some_extended = redis.call('EXISTS', cancelled) == 1, redis.call('EXISTS', extended) == 1

local cursor = 4
local function take()
  cursor = cursor + 1
  return ARGV[cursor]
end
local holders, topics = {}, {}
for c = 1, tonumber(take()) do holders[c] = { holder = take(), list = KEYS[16 + c], done = {} } end
for t = 1, tonumber(take()) do topics[t] = topic_row(take(), 9 + #holders + 8 * t) end

-- Back to waiting. Only a retry keeps the attempt that the claim counted; none takes back the delivery.
local COUNTED = { retry = 'retried', snooze = 'snoozed', release = 'released' }
local function put_back(s, attempts)
  if s.verdict ~= 'retry' then attempts = attempts - 1 end
  redis.call('HSET', claims, s.id, s.delivery .. ':' .. attempts .. ':')
  if s.failure ~= '' then redis.call('HSET', failures, s.id, s.failure) end
  wait(at, s.topic, s.id, s.after > 0 and up + s.after or now)
  count(s.topic.name, COUNTED[s.verdict])
end

-- To the dead. What is known about the job stays with it, its count of deliveries too: a respawned job is fenced by it.
local function bury(s, attempts)
  redis.call('HSET', claims, s.id, s.delivery .. ':' .. attempts .. ':')
  redis.call('HSET', failures, s.id, s.failure)
  redis.call('ZADD', s.topic.dead, now, s.id)
  note_used(at, s.topic)
  redis.call('SADD', at.perishable, s.topic.name)
end

-- What ended jobs leave behind is removed from many of them at once: at the end, or before a follow-up job that may need its place.
local gone, is_gone, held = {}, {}, {}
local function remove_gone()
  if #gone > 0 then remove(stored, gone) end
  for key, of in pairs(held) do set_free(key, of.values, of.ids) end
  gone, is_gone, held = {}, {}, {}
end

local GONE = { ack = 'acked', expire = 'expired', cancelled = 'cancelled' }
local function end_job(s, attempts)
  if s.verdict == 'bury' then
    bury(s, attempts)
  else
    gone[#gone + 1], is_gone[s.id] = s.id, true
  end
  if s.unique ~= '' then
    local of = held[s.topic.unique] or { values = {}, ids = {} }
    held[s.topic.unique], of.values[#of.values + 1], of.ids[#of.ids + 1] = of, s.unique, s.id
  end
  local as = GONE[s.verdict] or 'dead-' .. s.reason
  count(s.topic.name, as)
  s.attempts, s.done = attempts, ARGV[3]
  report_end(s.id, as, s)
end

-- The mark of a cancelled job ends with the delivery. Only an ack and an expiry keep their own verdict.
local function settle(s, attempts)
  s.claim.done[#s.claim.done + 1] = s.id
  if some_extended then redis.call('ZREM', extended, s.id) end
  count(s.topic.name, 'running', -1)
  local marked = some_cancelled and redis.call('SREM', cancelled, s.id) == 1
  if marked and s.verdict ~= 'ack' and s.verdict ~= 'expire' then s.verdict = 'cancelled' end
  if COUNTED[s.verdict] then put_back(s, attempts) else end_job(s, attempts) end
  return s.verdict == 'cancelled' and 2 or 1
end

local settlements, ids = {}, {}
while cursor < #ARGV do
  local s = { id = take(), delivery = take(), claim = holders[tonumber(take())], topic = topics[tonumber(take())],
              verdict = take(), after = tonumber(take()), failure = take(), reason = take(), unique = take(),
              result_key = take(), result = take(), keep = take(), notify = take(), guard = take() }
  if s.result_key ~= '' then s.result_key = KEYS[tonumber(s.result_key)] end
  s.follow_ups = tonumber(take())
  s.first = cursor
  if COUNTED[s.verdict] then expect_place(s.topic, s.after > 0 and s.after or '') end
  if s.verdict == 'bury' then expect('ZCARD', s.topic.dead) end
  for _ = 1, s.follow_ups do
    expect_place(topics[tonumber(ARGV[cursor + 1])], ARGV[cursor + 3], ARGV[cursor + 4])
    cursor = cursor + 6
  end
  settlements[#settlements + 1], ids[#ids + 1] = s, s.id
end
local history = redis.call('HMGET', claims, unpack(ids))

local answers, ended = {}, {}
for i, s in ipairs(settlements) do
  local claim = not ended[s.id] and history[i]
  local ours, attempts = is_running(claim, s.delivery, s.claim.holder)
  if ours and s.guard == 'lease' then ours = tonumber(lease_end(leases, extended, s.id, claim) or 0) <= now end
  if ours then ended[s.id] = true end
  answers[i] = ours and settle(s, attempts) or 0
  cursor = s.first
  for _ = 1, s.follow_ups do
    local topic, id, due, priority, unique, body = topics[tonumber(take())], take(), take(), take(), take(), take()
    if answers[i] == 1 then
      if unique ~= '' or is_gone[id] then remove_gone() end
      insert(at, topic, id, due, priority, unique, body)
    end
  end
end
remove_gone()
for _, claim in ipairs(holders) do leave(leases, claim.list, claim.holder, claim.done) end
for _, topic in ipairs(topics) do announce(at, topic) end
save_counts(KEYS[6])
if next(ended) then keep_answers(KEYS[16], ARGV[4], answers) end
return answers
