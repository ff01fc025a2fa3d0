-- The server's clock was set: the delayed and dead jobs of a topic and its unique values wait for as long as before, but for jobs whose
-- producers have named the time, as long as they wait for that.
--
-- KEYS  1 clock  2 jobs  3 delayed  4 dead  5 windows  6 unique  7 due  8 claims
-- ARGV  1 now, ms ('': the server's clock)  2 topic  3 number of the step  4 by how many ms, below zero if it went back
--       5 what the clock would show  6 what it showed when the step was noticed
--       7 what was made at this time or earlier is moved by  8 this many ms instead
-- Returns 1, or 0 if that was done before.
despite_full_memory(KEYS[3])
if not is_new_step(KEYS[1], ARGV[2], tonumber(ARGV[3])) then return 0 end
local now, ms, from, to, earlier, earlier_ms = clock(ARGV[1]), unpack(ARGV, 4, 8)
ms, from, to, earlier, earlier_ms = tonumber(ms), tonumber(from), tonumber(to), tonumber(earlier), tonumber(earlier_ms)

-- By how many ms that is moved which was noted at a time.
local function of_past(at)
  if at >= to - NOTICED_WITHIN and at <= now then return nil end
  return at <= earlier and earlier_ms or ms
end

-- By how many ms that is moved which waits for a time, given when it was made, if that is known.
local function of_wait(until_, made)
  if ms < 0 and until_ < from - NOTICED_WITHIN then return nil end
  if made then return of_past(made) end
  return ms
end

-- When a stored job was pushed, and whether it waits for a time that its producer has named.
local function pushed(id, until_)
  local body = redis.call('HGET', KEYS[2], id)
  if not body or #body < 16 then return nil, false end
  local due, is_fixed = stamped_due(body)
  return struct.unpack('>I8', body), is_fixed and due == until_
end

shift(KEYS[3], 1, function(until_, id)
  local made, is_named = pushed(id, until_)
  if is_named then return nil end
  if redis.call('HEXISTS', KEYS[8], id) == 0 then return of_wait(until_, made) end
  -- It waits since its last attempt. Better too early than for as long as the clock went forward.
  if ms > 0 and until_ >= now then return nil end
  return of_wait(until_, nil)
end)
-- When a job that waits for others is due is in its stamp.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], NEVER, '+inf')) do
  local body = redis.call('HGET', KEYS[2], id)
  if body and #body >= 16 then
    local due, is_named = stamped_due(body)
    local by = not is_named and of_past(struct.unpack('>I8', body))
    if by then
      body = string.sub(body, 1, 8) .. struct.pack('>I8', math.max(due + by, 0)) .. string.sub(body, 17)
      redis.call('HSET', KEYS[2], id, body)
    end
  end
end
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
if first and tonumber(first) < NEVER then redis.call('ZADD', KEYS[7], first, ARGV[2]) end
shift(KEYS[4], 1, of_past)
-- `unique` says the same as `windows`.
local holders = {}
shift(KEYS[5], 1, function(until_, value)
  local id = string.match(redis.call('HGET', KEYS[6], value) or '', '^(%S+) %d+$')
  local by = of_wait(until_, id and pushed(id, until_))
  if id and by then
    holders[#holders + 1], holders[#holders + 2] = value, id .. ' ' .. string.format('%.0f', math.max(until_ + by, 1))
  end
  return by
end)
many('HSET', KEYS[6], holders)
return 1
