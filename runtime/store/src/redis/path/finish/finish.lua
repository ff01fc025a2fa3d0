-- Put, after ends, in front of the scripts that end jobs: settle, cancel, sweep, delete_dead. And of remove_exported, which removes jobs
-- without ending them.

-- Removes everything that is stored of these jobs.
local function remove(stored, ids)
  for _, id in ipairs(some_links() and ids or {}) do forget_links(id) end
  remove_stored(stored, ids)
end

-- Remembers jobs that have ended and may have had different numbers of attempts: `history[i]` is what `claims` said of `ids[i]`.
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
