-- The server's clock was set back: the delayed and dead jobs of a topic and its unique values wait for as long as before, but for jobs whose
-- producers have named the time, as long as they wait for that.
--
-- KEYS  1 clock  2 jobs  3 delayed  4 dead  5 windows  6 unique  7 due
-- ARGV  1 topic  2 number of the step  3 by how many ms
-- Returns 1, or 0 if that was done before.
despite_full_memory(KEYS[3])
if not is_new_step(KEYS[1], ARGV[1], tonumber(ARGV[2])) then return 0 end
local back = tonumber(ARGV[3])

local function waits_for_named_time(id, until_)
  local body = redis.call('HGET', KEYS[2], id)
  if not body or #body < 16 then return false end
  local due, is_fixed = stamped_due(body)
  return is_fixed and due == until_
end

local found, lowered = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'), {}
for i = 1, #found, 2 do
  local at = tonumber(found[i + 1])
  if at < NEVER and not waits_for_named_time(found[i], at) then
    lowered[#lowered + 1], lowered[#lowered + 2] = math.max(at - back, 1), found[i]
  end
end
many('ZADD', KEYS[3], lowered)
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
if first and tonumber(first) < NEVER then redis.call('ZADD', KEYS[7], first, ARGV[1]) end
lower(KEYS[4], back, 1)
lower(KEYS[5], back, 1)
-- `unique` says the same as `windows`.
local windows, holders = redis.call('ZRANGE', KEYS[5], 0, -1, 'WITHSCORES'), {}
for i = 1, #windows, 2 do
  local id = string.match(redis.call('HGET', KEYS[6], windows[i]) or '', '^(%S+) %d+$')
  if id then holders[#holders + 1], holders[#holders + 2] = windows[i], id .. ' ' .. string.format('%.0f', windows[i + 1]) end
end
many('HSET', KEYS[6], holders)
return 1
