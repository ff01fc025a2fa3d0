-- Put in front of the scripts that end jobs, and of remove_exported: what they do with jobs of any kind.
--
-- `stored` names the keys that keep something of each job: { jobs, claims, some }. `some` lists the keys of what only some
-- jobs have: failures, checkpoints, priorities (HASHes by id), large (a SET) and, where the script ends running jobs, cancelled (a
-- SET) and extended (a ZSET).

local REMOVE = { 'HDEL', 'HDEL', 'HDEL', 'SREM', 'SREM', 'ZREM' }

-- Removes what is stored of these jobs, but for their links: see remove of finish.
local function remove_stored(stored, ids)
  many('HDEL', stored.jobs, ids)
  many('HDEL', stored.claims, ids)
  -- Asking whether there are any at all is cheaper than naming every job once more.
  if #stored.some == 0 or redis.call('EXISTS', unpack(stored.some)) == 0 then return end
  for k, key in ipairs(stored.some) do
    if redis.call('EXISTS', key) == 1 then many(REMOVE[k], key, ids) end
  end
end

-- Takes jobs off the processing list of their claim, whose lease ends with the last of them. `leaving`: the ids as a set, if the caller has
-- one; it is used up.
local function leave(leases, list, holder, ids, leaving)
  if #ids == 0 then return end
  if redis.call('LLEN', list) == #ids then
    redis.call('DEL', list)
  else
    -- They are most likely among its oldest. Taking these off and putting back what goes on is three commands, however many have
    -- ended; looking for each is one per job.
    local oldest, going_on, off = redis.call('LRANGE', list, -2 * #ids, '-1'), {}, 0
    if not leaving then
      leaving = {}
      for _, id in ipairs(ids) do leaving[id] = true end
    end
    for _, id in ipairs(oldest) do
      if leaving[id] then leaving[id], off = nil, off + 1 else going_on[#going_on + 1] = id end
    end
    if off > 0 then
      redis.call('LTRIM', list, '0', -1 - #oldest)
      if #going_on > 0 then many('RPUSH', list, going_on) end
    end
    if off < #ids then
      for id in pairs(leaving) do redis.call('LREM', list, '-1', id) end
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
