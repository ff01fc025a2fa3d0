-- The ids of jobs of some keys, those that have waited longest first within each key. Changes nothing.
--
-- KEYS  1 slots
-- ARGV  1 how many at most  2 '1': also those that hold the slots  3 and on: fields of `slots`
-- Returns the ids.
local most, ids = tonumber(ARGV[1]), {}
for f = 3, #ARGV do
  local line = lines.read(ARGV[f], redis.call('HGET', KEYS[1], ARGV[f]))
  for _, holder in ipairs(ARGV[2] == '1' and line.holders or {}) do ids[#ids + 1] = holder end
  for place = line.first, line.last + 1 do
    if #ids >= most then break end
    for id in string.gmatch(lines.segment(KEYS[1], line, place), '%S+') do ids[#ids + 1] = id end
  end
end
for i = #ids, most + 1, -1 do ids[i] = nil end
return ids
