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
-- for points in time.
if ms < 0 then
  for key = 4, 5 do shift(KEYS[key], 1, function(_, member) return member ~= SCHEDULES and ms end) end
end
shift(KEYS[6], 1, function(at) return math.min(ms, now - at) end)
shift(KEYS[7], 1, function(at) return math.min(ms, now + RAW_FOR - at) end)
return 1
