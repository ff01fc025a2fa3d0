-- The server's clock was set: what waits in a partition waits for as long as before. Topics follow, see set_topics_clock.
--
-- KEYS  1 clock  2 leases  3 extended  4 limited  5 due  6 topics  7 raw  8 rates  9 key-rates
-- ARGV  1 now, ms ('': the server's clock)  2 number of the step  3 by how many ms, below zero if it went back
-- Returns 1, or 0 if that was done before.
despite_full_memory(KEYS[5])
if not is_new_step(KEYS[1], '', tonumber(ARGV[2])) then return 0 end
local now, ms = clock(ARGV[1]), tonumber(ARGV[3])
local function all() return ms end
for key = 2, 3 do shift(KEYS[key], 1, all) end
for key = 8, 9 do shift(KEYS[key], 1000, all) end
-- When something is looked at, or was last used. After a step back that is not to be in the future; too early does no harm. Schedules wait
-- for points in time. What a limit keeps in line is looked at now: a budget starts anew with an hour or a day of the new clock.
if ms < 0 then
  shift(KEYS[4], 1, function(at) return math.min(ms, now - at) end)
  shift(KEYS[5], 1, function(at, member)
    if member == SCHEDULES then return nil end
    return string.sub(member, -1) == '@' and math.min(ms, now - at) or ms
  end)
end
shift(KEYS[6], 1, function(at) return math.min(ms, now - at) end)
shift(KEYS[7], 1, function(at) return math.min(ms, now + RAW_FOR - at) end)
return 1
