-- What is known of a job, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 claims  3 failures  4 leases  5 extended  6 cancelled  7 delayed  8 dead  9 result  10 keyed  11 slots
--       12 checkpoints
-- ARGV  1 id  2 the field of its key in `slots`: '' if it has none
-- Returns { result, stamp and envelope, claim, failure, end of its lease, when it is due, since when it is dead: each '' if there
--           is none; 1 if it was cancelled or else 0; ids that hold the slots of its key and how many wait before it, both '' if
--           it does not wait for that; its checkpoint, '' if there is none; 1 if the rate of its key held it back before it started, or else 0 }
local id = ARGV[1]
local place, holders, ahead = ARGV[2] ~= '' and string.match(redis.call('HGET', KEYS[10], id) or '', '^(%d+) '), '', ''

-- How many wait before the job, if it stands in this segment. Exact up to so many segments, which take a millisecond; what is further on counts as long as these are.
local COUNTED = 1000
local function count_ahead(line, last)
  local own, ahead, known = 0, 0, 0
  for other in string.gmatch(lines.segment(KEYS[11], line, last), '%S+') do
    if other == id then
      for s = line.first, math.min(last, line.first + COUNTED) - 1 do
        known = known + 1
        for _ in string.gmatch(lines.segment(KEYS[11], line, s), '%S+') do ahead = ahead + 1 end
      end
      return own + (known > 0 and math.floor(ahead * (last - line.first) / known) or 0)
    end
    own = own + 1
  end
end

if place and tonumber(place) > 0 then
  local line = lines.read(ARGV[2], redis.call('HGET', KEYS[11], ARGV[2]))
  local n = tonumber(place) >= line.first and count_ahead(line, tonumber(place))
  if n then holders, ahead = table.concat(line.holders, ' '), string.format('%.0f', n) end
end
local claim = redis.call('HGET', KEYS[2], id)
return { redis.call('GET', KEYS[9]) or '', redis.call('HGET', KEYS[1], id) or '', claim or '',
         redis.call('HGET', KEYS[3], id) or '', lease_end(KEYS[4], KEYS[5], id, claim) or '',
         redis.call('ZSCORE', KEYS[7], id) or '', redis.call('ZSCORE', KEYS[8], id) or '',
         redis.call('SISMEMBER', KEYS[6], id), holders, ahead,
         redis.call('HGET', KEYS[12], id) or '', place == '00' and 1 or 0 }
