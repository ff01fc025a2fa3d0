-- The server's clock was set back: what waits in a partition waits for as long as before. Topics follow, see set_topics_clock.
--
-- KEYS  1 clock  2 leases  3 extended  4 limited  5 due  6 topics  7 raw  8 rates  9 key-rates
-- ARGV  1 number of the step  2 by how many ms
-- Returns 1, or 0 if that was done before.
despite_full_memory(KEYS[5])
if not is_new_step(KEYS[1], '', tonumber(ARGV[1])) then return 0 end
local back = tonumber(ARGV[2])
-- Schedules wait for points in time.
for key = 2, 7 do lower(KEYS[key], back, 1, SCHEDULES) end
for key = 8, 9 do lower(KEYS[key], back, 1000) end
return 1
