-- Put in front of the scripts that end jobs: ack, settle, cancel, sweep, delete_dead. And of remove_exported, which removes jobs
-- without ending them.
--
-- `stored` names the keys that keep something of each job: { jobs, claims, some }. `some` lists the keys of what only some
-- jobs have: failures, checkpoints, priorities (HASHes by id), large (a SET) and, where the script ends running jobs, cancelled (a
-- SET) and extended (a ZSET).

local REMOVE = { 'HDEL', 'HDEL', 'HDEL', 'SREM', 'SREM', 'ZREM' }

-- Removes everything that is stored of these jobs.
local function remove(stored, ids)
  for _, id in ipairs(some_links() and ids or {}) do forget_links(id) end
  many('HDEL', stored.jobs, ids)
  many('HDEL', stored.claims, ids)
  -- Asking whether there are any at all is cheaper than naming every job once more.
  if #stored.some == 0 or redis.call('EXISTS', unpack(stored.some)) == 0 then return end
  for k, key in ipairs(stored.some) do
    if redis.call('EXISTS', key) == 1 then many(REMOVE[k], key, ids) end
  end
end

-- Takes jobs off the processing list of their claim, whose lease ends with the last of them.
local function leave(leases, list, holder, ids)
  if #ids == 0 then return end
  if redis.call('LLEN', list) == #ids then
    redis.call('DEL', list)
  else
    -- They are most likely among its oldest. Taking these off and putting back what goes on is three commands, however many have
    -- ended; looking for each is one per job.
    local oldest, leaving = redis.call('LRANGE', list, -2 * #ids, -1), {}
    for _, id in ipairs(ids) do leaving[id] = true end
    local going_on, off = {}, 0
    for _, id in ipairs(oldest) do
      if leaving[id] then leaving[id], off = nil, off + 1 else going_on[#going_on + 1] = id end
    end
    if off > 0 then
      redis.call('LTRIM', list, 0, -1 - #oldest)
      if #going_on > 0 then many('RPUSH', list, going_on) end
    end
    if off < #ids then
      for id in pairs(leaving) do redis.call('LREM', list, -1, id) end
    end
    if redis.call('EXISTS', list) == 1 then return end
  end
  redis.call('ZREM', leases, holder)
end

-- Keeps for an hour what a call that ended attempts answers, for a caller that loses the reply and calls again. The second call
-- ends nothing any more, so it keeps nothing either.
local function keep_answers(record, number, answers)
  redis.call('SET', record, number .. ' ' .. table.concat(answers, ' '), 'PX', 3600000)
end

-- Remembers jobs of a topic that have ended: adds a line to a text, of which the latest half stays once it is long; that may begin in the
-- midst of an id. `listed`: ids with a space before and behind each. `outcome`: c complete, e expired, x cancelled, d deleted. `span`: when
-- they ended and for how long that is remembered, ms. The text expires after `expires` ms: `renew` says whether from now on, if it is there
-- already. Needs memory, so no script begins with it.
local ENDED_BYTES = 65536
local function remember(key, listed, outcome, attempts, span, expires, renew)
  local line = '|' .. outcome .. ' ' .. span .. ' ' .. attempts .. '\n'
  local added = #listed + #line
  -- Lua copies a text to add to it, and takes longer for that than the server for a command.
  if #listed > 1000 then redis.call('APPEND', key, listed) else line = listed .. line end
  local length = redis.call('APPEND', key, line)
  if length > 2 * ENDED_BYTES then
    redis.call('SET', key, redis.call('GETRANGE', key, -ENDED_BYTES, -1), 'PX', expires)
  elseif renew or length == added then
    redis.call('PEXPIRE', key, expires)
  end
end

-- The same of jobs that may have had different numbers of attempts: `history[i]` is what `claims` said of `ids[i]`.
local function remember_each(key, ids, history, outcome, span, expires)
  local by_attempts = {}
  for i, id in ipairs(ids) do
    local _, attempts = parse_claim(history[i])
    local listed = by_attempts[attempts]
    if listed then listed[#listed + 1] = id else by_attempts[attempts] = { id } end
  end
  for attempts, listed in pairs(by_attempts) do
    remember(key, ' ' .. table.concat(listed, ' ') .. ' ', outcome, attempts, span, expires, true)
  end
end

-- For how long that is remembered of jobs that end otherwise than by a settlement, ms.
local ENDED_RETENTION = 3600000
local function span_of_end(now)
  return string.format('%.0f %d', now, ENDED_RETENTION)
end

-- Sets the unique values of ended jobs free, but for those that another job holds. `ids[i]` had `values[i]`.
local function set_free(key, values, ids)
  local freed = {}
  for i, holder in ipairs(redis.call('HMGET', key, unpack(values))) do
    if holder == ids[i] then freed[#freed + 1] = values[i] end
  end
  many('HDEL', key, freed)
end

-- Keeps the result of a job that has ended, and publishes the end, if its producer asked for that: see finish.
local function report_end(id, as, asked)
  if asked.result_key ~= '' then
    local cancelled = as == 'cancelled' and cmsgpack.pack({ attempts = asked.attempts, ['end'] = 'cancelled' })
    redis.call('SET', asked.result_key, cancelled or asked.result, 'PX', asked.keep)
  end
  if asked.notify ~= '' then publish(asked.done, id) end
end

-- Ends jobs that have left their place. Settle takes the same steps for many jobs at once.
--
-- `stored`: nil for dead jobs, which stay. `topics`: how many of the jobs each topic had. `as`: the total that they are
-- added to, or nil. `asked`: what the producer of a single job asked for, or nil:
--   unique, values      the unique value that the job sets free if it holds it ('': none), and the HASH with all of them
--   result_key          where the result is kept, for `keep` ms ('': nowhere), of a job that made so many `attempts`
--   result              what is kept there; the result of a cancelled job is written here
--   notify, done        '1': its id is published on this channel
local function finish(stored, topics, ids, as, asked)
  if stored then remove(stored, ids) end
  if as then
    for topic, n in pairs(topics) do count(topic, as, n) end
  end
  if not asked then return end
  if asked.unique ~= '' then set_free(asked.values, { asked.unique }, ids) end
  report_end(ids[1], as, asked)
end
