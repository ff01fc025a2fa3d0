-- Ends attempts with any verdict: the job's new place, its result, its follow-up jobs and the counts in one step.
--
-- KEYS  1 jobs  2 active  3 due  4 topics  5 counts  6 claims  7 leases  8 failures  9 checkpoints
--       then per worker: processing; then per topic: ready, delayed, unique, dead; then the result keys
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 done channel
--       4 number of workers, then their ids in order; number of topics, then their names in order
--       then per settlement, 14: id, delivery, index of worker, index of topic, verdict (ack retry snooze release bury
--         expire), wait in ms, failure or '', reason or '', unique value or '', index in KEYS of the result key or '',
--         result, keep it for ms, notify ('1' or ''), guard ('': none, 'lease': only if the lease ran out),
--         number of follow-ups; then per follow-up, 5: index of topic, id, due, unique value or '', envelope (see push)
-- Returns per settlement: 1 done, 0 the lease is lost and nothing was changed.
local now, up = clock(ARGV[1])
local at = { now = now, up = up, jobs = KEYS[1], active = KEYS[2], due = KEYS[3], topics = KEYS[4], wake = ARGV[2] }
local claims, leases, failures, checkpoints = KEYS[6], KEYS[7], KEYS[8], KEYS[9]

local cursor = 3
local function take()
  cursor = cursor + 1
  return ARGV[cursor]
end
local workers, topics = {}, {}
for w = 1, tonumber(take()) do workers[w] = { id = take(), processing = KEYS[9 + w] } end
for t = 1, tonumber(take()) do
  local first = 6 + #workers + 4 * t
  topics[t] = { name = take(), ready = KEYS[first], delayed = KEYS[first + 1], unique = KEYS[first + 2],
                dead = KEYS[first + 3], arrived = {}, later = {} }
end

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
  redis.call('SADD', at.topics, s.topic.name)
  count(s.topic.name, 'dead-' .. s.reason)
end

local function forget(s)
  for _, key in ipairs({ at.jobs, claims, failures, checkpoints }) do redis.call('HDEL', key, s.id) end
  count(s.topic.name, s.verdict == 'ack' and 'acked' or 'expired')
end

local function finish(s, attempts)
  if s.verdict == 'bury' then bury(s, attempts) else forget(s) end
  if s.unique ~= '' and redis.call('HGET', s.topic.unique, s.unique) == s.id then
    redis.call('HDEL', s.topic.unique, s.unique)
  end
  if s.result_key ~= '' then redis.call('SET', KEYS[tonumber(s.result_key)], s.result, 'PX', s.keep) end
  if s.notify ~= '' then redis.call('PUBLISH', ARGV[3], s.id) end
end

local answers = {}
while cursor < #ARGV do
  local s = { id = take(), delivery = take(), worker = workers[tonumber(take())], topic = topics[tonumber(take())],
              verdict = take(), after = tonumber(take()), failure = take(), reason = take(), unique = take(),
              result_key = take(), result = take(), keep = take(), notify = take(), guard = take() }
  local follow_ups = tonumber(take())
  local ours, attempts = is_running(redis.call('HGET', claims, s.id), s.delivery, s.worker.id)
  if ours and s.guard == 'lease' then ours = tonumber(redis.call('ZSCORE', leases, s.id) or 0) <= now end
  answers[#answers + 1] = ours and 1 or 0
  if ours then
    redis.call('LREM', s.worker.processing, -1, s.id)
    redis.call('ZREM', leases, s.id)
    count(s.topic.name, 'running', -1)
    if COUNTED[s.verdict] then put_back(s, attempts) else finish(s, attempts) end
  end
  for _ = 1, follow_ups do
    local topic, id, due, unique, body = topics[tonumber(take())], take(), take(), take(), take()
    if ours then insert(at, topic, id, due, unique, body) end
  end
end
for _, topic in ipairs(topics) do announce(at, topic) end
save_counts(KEYS[5])
return answers
