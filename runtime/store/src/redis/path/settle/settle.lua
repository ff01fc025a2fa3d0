-- Ends attempts with any verdict: each job's new place, its result, its follow-up jobs and the counts in one step. Settlements that
-- are alike are a group: what a group has in common costs it one command.
--
-- In order:
--   0. read where jobs are put; make a write that changes nothing, so that a full server takes the rest
--   1. see which leases are not lost, and which jobs are marked as cancelled
--   2. for each group: note where its jobs wait next, or bury them, or write their results
--   3. once: remove jobs that are gone; set unique values free; store follow-up jobs; have topics claimed from that may run more jobs again;
--      announce what waits; let jobs start that waited for these; note what is known of jobs that stay; take the jobs off the lists of
--      their claims; write the counts and the record of this call
--
-- KEYS  1 to 14: see waiting; 15 claims  16 leases  17 failures  18 checkpoints  19 cancelled
--       20 extended  21 record of this call  22 limited  23 tenant, then the processing lists of claims; then a row per topic that has one; then
--       the waiters of the other topics; then the ended keys of all topics; then the result keys of the groups that keep results, in the order of their jobs; then the
--       state keys of the groups that leave states, likewise; then those that read_links() names; last, if a follow-up job goes there: outbox
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 done channel  4 number of this call
--       5 number of claims, then their holders in order
--       number of topics with rows, number of topics, then their names in order, those with rows first. A topic needs a row if one of
--         its jobs waits again, is buried, has a unique value, may have a key, is settled under a guard or is a follow-up job
--       number of settlements, then their ids in the order of the groups
--       number of groups, then per group, 16: index of its claim, index of its topic, delivery, verdict (ack retry snooze release bury
--         expire), reason or '', keep the results for ms ('': keep none), for how long it is remembered that they ended, ms ('': it is not), twice as long, '1' if the
--         text that it is added to expires that long from now on or '', the ids as remember() takes them or '', notify of the ends ('1' or ''), guard ('': none, 'lease':
--         only if the lease ran out), 1 if the jobs have unique values or '', 1 if they may have keys, 'state' if they
--         leave states as well, or '', 1 if their fuel counts or '', number of its settlements
--         then per settlement, one kind after the other: the wait in ms (retry snooze release); the failure (retry bury); the unique
--         value; the result ('' if the verdict does not end the job), if the group keeps them; the fuel, if it counts; how many ms the state is kept, then the
--         state ('': it is deleted, '0': it is marked as deleted, '1' and its bytes), if they leave states
--       then the follow-up jobs: see read_new
-- Returns per settlement that is not simply done: its position, counted from 1; 2 if the job was cancelled meanwhile and is gone, 0
-- if the lease is lost and nothing was changed.
local claims, leases, failures, checkpoints, cancelled, extended = unpack(KEYS, 15, 20)
local limited, tenant = KEYS[22], KEYS[23]

local PUT_BACK = { retry = 'retried', snooze = 'snoozed', release = 'released' }

local cursor = 4
local function take()
  cursor = cursor + 1
  return ARGV[cursor]
end
-- Passes over a value for each settlement of a group, if there is one. Returns what is to be added to a settlement's position.
local function column(group, there_is)
  if not there_is then return nil end
  local before = cursor + 1 - group.first
  cursor = cursor + group.last + 1 - group.first
  return before
end

local holders, topics, groups = {}, {}, {}
for c = 1, tonumber(take()) do holders[c] = { holder = take(), list = KEYS[23 + c], done = {} } end
local rows = tonumber(take())
local others = 23 + #holders + 8 * rows
for t = 1, tonumber(take()) do
  local name = take()
  topics[t] = t <= rows and topic_row(name, 16 + #holders + 8 * t) or { name = name, waiters = KEYS[others + t - rows] }
end
local settlements = tonumber(take())
local ids = { unpack(ARGV, cursor + 1, cursor + settlements) }
cursor = cursor + settlements
local ended_keys = others + #topics - rows
local results = ended_keys + #topics
local next_job, result_keys, stateful = 1, results, {}
for g = 1, tonumber(take()) do
  local claim, topic, delivery, verdict, reason, keep, retention, expires, renew, listed, notify, guard, holds, keyed, fueled, jobs =
    unpack(ARGV, cursor + 1, cursor + 16)
  cursor = cursor + 16
  local group = { claim = holders[tonumber(claim)], topic = topics[tonumber(topic)], delivery = delivery, verdict = verdict,
                  reason = reason, keep = keep, notify = notify, guard = guard, holds = holds ~= '', is_keyed = keyed ~= '', done = ARGV[3],
                  retention = retention, expires = expires, renew = renew ~= '', listed = listed, ended_key = KEYS[ended_keys + tonumber(topic)], result_key = '', first = next_job, ours = {} }
  next_job = next_job + tonumber(jobs)
  group.last, groups[g] = next_job - 1, group
  local is_put_back = PUT_BACK[group.verdict]
  group.waits = column(group, is_put_back)
  group.failures = column(group, group.verdict == 'retry' or group.verdict == 'bury')
  group.values = column(group, group.holds)
  group.results = column(group, group.keep ~= '')
  if group.results then
    group.keys = result_keys + 1 - group.first
    result_keys = group.keys + group.last
  end
  group.fuel = column(group, fueled ~= '')
  if keyed == 'state' then
    group.ttls, group.states = column(group, true), column(group, true)
    stateful[#stateful + 1] = group
  end
  for i = group.first, is_put_back and group.last or 0 do
    local wait_ms = ARGV[group.waits + i]
    expect_place(group.topic, wait_ms ~= '0' and wait_ms or '')
  end
  if group.verdict == 'bury' then expect('ZCARD', group.topic.dead) end
  if group.holds then expect('HLEN', group.topic.unique) end
  if group.is_keyed then
    expect_keys()
    expect_place(group.topic, '')
  end
end
local state_keys = result_keys
for _, group in ipairs(stateful) do
  group.state_keys = state_keys + 1 - group.first
  state_keys = group.state_keys + group.last
end
local follow_ups = read_new(topics, cursor + 1, true)
for _, id in ipairs(follow_ups.ids) do reused[id] = true end
-- Most attempts end as plain acks. A call with nothing else needs neither the time nor a place where jobs wait, and its first write needs no
-- memory.
local is_plain = rows == 0 and #follow_ups.ids == 0 and result_keys == results
local now, up, at
if not is_plain then
  now, up = clock(ARGV[1])
  at = partition(now, up, ARGV[2])
  despite_full_memory(leases)
end
local history = redis.call('HMGET', claims, unpack(ids))

-- Finds what is settled here. `answers` is what this script returns, `dropped` has the positions whose follow-ups do not appear.
local ended, answers, dropped = {}, {}, {}
local function answer(i, with)
  answers[#answers + 1], answers[#answers + 2], dropped[i] = i, with, true
end
for _, group in ipairs(groups) do
  local holder, done, ours, n = group.claim.holder, group.claim.done, group.ours, 0
  -- What is known of a job that was never given back: comparing is cheaper than taking each apart.
  local usual, before = group.delivery .. ':' .. group.delivery .. ':' .. holder, #done
  for i = group.first, group.last do
    local id, claim = ids[i], history[i]
    local is_usual = claim == usual
    local is_ours = not ended[id] and (is_usual or is_running(claim, group.delivery, holder))
    if is_ours and group.guard == 'lease' then
      is_ours = tonumber(lease_end(leases, extended, id, claim) or 0) <= now
    end
    if is_ours then
      n = n + 1
      group.is_mixed = group.is_mixed or not is_usual
      ended[id], ours[n], done[before + n] = true, i, id
    else
      answer(i, 0)
    end
  end
end
if not next(ended) then return answers end

-- What only some jobs have: one question shows that none has any of it. The mark of a cancelled job ends with the delivery.
local marked, some = {}, { failures, checkpoints, KEYS[2], KEYS[9] }
local some_cancelled, some_extended, some_limited, some_tenant = false, false, false, false
if redis.call('EXISTS', cancelled, extended, limited, tenant, links, unpack(some)) > 0 then
  some_cancelled, some_extended = redis.call('EXISTS', cancelled) == 1, redis.call('EXISTS', extended) == 1
  some_limited, some_tenant = redis.call('EXISTS', limited) == 1, redis.call('EXISTS', tenant) == 1
  if some_tenant then expect('HLEN', tenant) end
else
  some, links_exist = {}, false
end
local some_wait = false
if some_links() then
  for _, claim in ipairs(holders) do some_wait = expect_waiters(claim.done, settlements) or some_wait end
  if not at then
    now, up = clock(ARGV[1])
    at = partition(now, up, ARGV[2])
    despite_full_memory(leases)
  end
end
for _, claim in ipairs(holders) do
  if some_cancelled and #claim.done > 0 then
    for i, mark in ipairs(redis.call('SMISMEMBER', cancelled, unpack(claim.done))) do
      if mark == 1 then
        marked[claim.done[i]] = true
        redis.call('SREM', cancelled, claim.done[i] .. '!')
      end
    end
    many('SREM', cancelled, claim.done)
  end
  if some_extended then many('ZREM', extended, claim.done) end
end

local gone, held, known, failed, over = {}, {}, {}, {}, {}

-- Notes what stays known of a job: its deliveries and attempts, and its failure if it has one.
local function note(group, i, attempts)
  known[#known + 1], known[#known + 2] = ids[i], group.delivery .. ':' .. attempts .. ':'
  if group.failures then failed[#failed + 1], failed[#failed + 2] = ids[i], ARGV[group.failures + i] end
end

-- Ends jobs of a group: as `as`, which is the total that they are added to. Dead ones stay.
local function end_jobs(group, ours, as, is_dead)
  if #ours == 0 then return end
  if group.retention ~= '' and not is_dead then over[#over + 1] = { group = group, ours = ours, as = ENDED_AS[as] } end
  count(group.topic.name, as, #ours)
  if some_wait or follow_ups.linked then
    for _, i in ipairs(ours) do note_end(ids[i], is_dead and 'd' or ENDED_AS[as]) end
  end
  if group.holds then
    local of = held[group.topic.unique] or { values = {}, ids = {} }
    held[group.topic.unique] = of
    for _, i in ipairs(ours) do
      of.values[#of.values + 1], of.ids[#of.ids + 1] = ARGV[group.values + i], ids[i]
    end
  end
  if group.is_keyed and not (is_dead and select(2, key_limits(at, group.topic))) then
    local theirs = {}
    for k, i in ipairs(ours) do theirs[k] = ids[i] end
    free_slots(at, group.topic, theirs, not is_dead)
  end
  if not group.results and group.notify == '' then return end
  for _, i in ipairs(ours) do
    if group.results then
      group.result_key, group.result = KEYS[group.keys + i], ARGV[group.results + i]
      local _, attempts = parse_claim(as == 'cancelled' and history[i])
      group.attempts = attempts
    end
    report_end(ids[i], as, group)
  end
end

-- Remembers how jobs have ended. Those of a group that all have as many attempts as deliveries are one text without looking at each.
local function remember_ends()
  local ended_at = now or (clock(ARGV[1]))
  for _, end_of in ipairs(over) do
    local group, ours = end_of.group, end_of.ours
    local span = string.format('%.0f %s', ended_at, group.retention)
    if group.listed ~= '' and not group.is_mixed and #ours == group.last + 1 - group.first then
      remember(group.ended_key, group.listed, end_of.as, group.delivery, span, group.expires, group.renew)
    else
      local ended_ids, claims_of = {}, {}
      for k, i in ipairs(ours) do ended_ids[k], claims_of[k] = ids[i], history[i] end
      remember_each(group.ended_key, ended_ids, claims_of, end_of.as, span, group.expires)
    end
  end
end

local function remove_later(ours)
  local n = #gone
  for k, i in ipairs(ours) do gone[n + k] = ids[i] end
end

-- Writes the states that completed jobs leave. The version of a new one begins with the time: so no deleted one's comes again.
local function leave_states(group, ours)
  for _, i in ipairs(group.states and ours or {}) do
    local key, state = KEYS[group.state_keys + i], ARGV[group.states + i]
    if state == '' then
      redis.call('DEL', key)
    else
      if string.sub(state, 1, 1) == '1' then
        local version = state_version(key)
        state = string.format('1%.0f ', version and version + 1 or now or clock(ARGV[1])) .. string.sub(state, 2)
      end
      redis.call('SET', key, state, 'PX', ARGV[group.ttls + i])
    end
  end
end

-- Back to waiting. Only a retry keeps the attempt that the claim counted; none takes back the delivery.
local function put_back(group, ours)
  count(group.topic.name, PUT_BACK[group.verdict], #ours)
  for _, i in ipairs(ours) do
    local _, attempts = parse_claim(history[i])
    if group.verdict ~= 'retry' then attempts = attempts - 1 end
    note(group, i, attempts)
    local after = tonumber(ARGV[group.waits + i])
    -- It holds a slot of its key all the time.
    wait(at, group.topic, ids[i], after > 0 and exact + after or now, nil, false)
  end
end

-- To the dead. What is known about the job stays with it, its count of deliveries too: a respawned job is fenced by it.
local function bury(group, ours)
  local dead = {}
  for _, i in ipairs(ours) do
    local _, attempts = parse_claim(history[i])
    note(group, i, attempts)
    dead[#dead + 1], dead[#dead + 2] = now, ids[i]
  end
  many('ZADD', group.topic.dead, dead)
  note_used(at, group.topic)
  redis.call('SADD', at.perishable, group.topic.name)
  end_jobs(group, ours, 'dead-' .. group.reason, true)
end

-- Takes the jobs out that have been cancelled. Only an ack and an expiry keep their own verdict.
local function without_cancelled(group)
  if not next(marked) or GONE[group.verdict] then return group.ours end
  local ours, gone_now = {}, {}
  for _, i in ipairs(group.ours) do
    local to = marked[ids[i]] and gone_now or ours
    to[#to + 1] = i
  end
  for _, i in ipairs(gone_now) do answer(i, 2) end
  end_jobs(group, gone_now, 'cancelled')
  remove_later(gone_now)
  return ours
end

-- Counts what the tenant's limits are about, and has as many topics claimed from again as jobs have ended.
local function end_of_tenant()
  local runs, fuel = 0, 0
  for _, group in ipairs(groups) do
    runs = runs + #group.ours
    for _, i in ipairs(group.fuel and group.ours or {}) do fuel = fuel + tonumber(ARGV[group.fuel + i]) end
  end
  local at_ms = now or clock(ARGV[1])
  redis.call('HINCRBY', tenant, 'running', -runs)
  local hour = span_of(at_ms, HOUR)
  if fuel > 0 and tonumber(redis.call('HGET', tenant, 'hour') or '') == hour then
    redis.call('HINCRBY', tenant, 'fuel', fuel)
  elseif fuel > 0 then
    redis.call('HSET', tenant, 'hour', hour, 'fuel', fuel)
  end
  if some_limited then unlimit_waiting(limited, KEYS[4], at_ms, runs, ARGV[2], groups[1].topic.waiters) end
end

for _, group in ipairs(groups) do
  count(group.topic.name, 'running', -#group.ours)
  local ours = without_cancelled(group)
  if #ours == 0 then
    -- All are lost or cancelled.
  elseif PUT_BACK[group.verdict] then
    put_back(group, ours)
  elseif group.verdict == 'bury' then
    bury(group, ours)
  else
    end_jobs(group, ours, GONE[group.verdict])
    leave_states(group, ours)
    remove_later(ours)
  end
end
if #gone > 0 then
  remove({ jobs = KEYS[1], claims = claims, some = some }, gone)
  if #over > 0 then remember_ends() end
end
for key, of in pairs(held) do set_free(key, of.values, of.ids) end
if not is_plain then insert(at, follow_ups, next(dropped) and dropped) end
for _, group in ipairs(some_limited and groups or {}) do
  if #group.ours > 0 then unlimit_after_end(limited, KEYS[3], ARGV[2], group.topic.waiters, group.topic.name) end
end
if some_tenant then end_of_tenant() end
for t = 1, rows do announce(at, topics[t]) end
if at then carry_ends(at) end
many('HSET', claims, known)
many('HSET', failures, failed)
for _, claim in ipairs(holders) do leave(leases, claim.list, claim.holder, claim.done) end
save_counts(KEYS[6])
keep_answers(KEYS[21], ARGV[4], answers)
return answers
