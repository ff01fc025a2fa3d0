-- Cancels jobs: waiting ones are gone, running ones are marked and their workers notified.
-- Taking a ready job out of its List costs time in proportion to the List's length: some 15 ms for a million. What would take
-- longer together is left for another call, so that no other client waits for long.
--
-- KEYS  1 to 14: see waiting; 15 claims  16 failures  17 checkpoints  18 cancelled; then a row per topic; then an ended
--       key per topic; then a result key per job
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 done channel  4 '1': kill  5 number of topics, then their names in order
--       then per job, 5: id, index of its topic, unique value that it holds until it is over or '',
--         keep the result for ms (0: not at all), notify of the end ('1' or '')
-- Returns per job: 1 gone, 2 marked, 0 it is dead or unknown and nothing was changed; as many as there was time for, at least one.
local WALK = 1000000
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local claims, cancelled, topics = KEYS[15], KEYS[18], {}
local stored = { jobs = at.jobs, claims = claims, some = { KEYS[16], KEYS[17], at.priorities, at.large } }
for t = 1, tonumber(ARGV[5]) do topics[t] = topic_row(ARGV[5 + t], 11 + 8 * t) end
local ended = 18 + 8 * #topics
for t, topic in ipairs(topics) do topic.ended = KEYS[ended + t] end
local results = ended + #topics

local function cancel(id, topic, unique, keep, notify, result)
  local _, attempts, worker = parse_claim(redis.call('HGET', claims, id))
  if worker ~= '' then
    -- A version that knew no kills may have left the mark of one behind.
    if redis.call('SADD', cancelled, id) == 1 then redis.call('SREM', cancelled, id .. '!') end
    publish(at.wake, 'cancel ' .. id)
    publish(all_runners(at.wake), 'cancel ' .. tenant_of(at.jobs) .. ' ' .. id)
    if ARGV[4] == '1' then
      -- No id has this sign. A runner that has missed the message finds it.
      redis.call('SADD', cancelled, id .. '!')
      publish(at.wake, 'kill ' .. id)
      publish(all_runners(at.wake), 'kill ' .. tenant_of(at.jobs) .. ' ' .. id)
    end
    return 2
  end
  if redis.call('ZSCORE', topic.dead, id) or not take_out(at, topic, id) then return 0 end
  free_slots(at, topic, { id }, true)
  note_end(id, 'x')
  -- The next job of its key may be the next one to be cancelled.
  place(at, topic)
  finish(stored, { [topic.name] = 1 }, { id }, 'cancelled',
         { unique = unique, values = topic.unique, result_key = keep ~= '0' and result or '', attempts = attempts,
           keep = keep, notify = notify, done = ARGV[3] })
  remember(topic.ended, ' ' .. id .. ' ', 'x', attempts, span_of_end(now), 2 * ENDED_RETENTION, true)
  return 1
end

despite_full_memory(at.due)
local answers = {}
for i = 6 + #topics, #ARGV, 5 do
  if at.walked >= WALK then break end
  local n, topic = #answers + 1, topics[tonumber(ARGV[i + 1])]
  answers[n] = cancel(ARGV[i], topic, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], KEYS[results + n])
end
for _, topic in ipairs(topics) do after_leaving(at, topic) end
carry_ends(at)
save_counts(KEYS[6])
return answers
