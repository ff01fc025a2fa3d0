-- Lists jobs of a topic with a recording, those first that are kept until later. Changes nothing.
--
-- KEYS  1 recorded
-- ARGV  1 now, ms ('': the server's clock)  2 how many at most, 1 to 1,000, then, if others were listed before, the last of them:
--       3 until when it is kept, ms  4 id
-- Returns { id, until when it is kept, ... }.
local first = 0
if ARGV[4] then
  first = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[3], '+inf')
  -- Those of its millisecond come next. If it is gone, they are all listed once more: its place among them is unknown.
  if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[4]) or -1) == tonumber(ARGV[3]) then
    repeat
      local id = redis.call('ZREVRANGE', KEYS[1], first, first)[1]
      first = first + 1
    until not id or id == ARGV[4]
  end
end
local now, found = clock(ARGV[1]), redis.call('ZREVRANGE', KEYS[1], first, first + ARGV[2] - 1, 'WITHSCORES')
while #found > 0 and tonumber(found[#found]) <= now do
  found[#found], found[#found - 1] = nil, nil
end
return found
