-- What is known of a job, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 claims  3 failures  4 leases  5 extended  6 cancelled  7 delayed  8 dead  9 result  10 keyed  11 slots
--       12 behind  13 checkpoints
-- ARGV  1 id  2 the field of its key in `slots`  3 what members for its key in `behind` begin with: '' if it has none
-- Returns { result, stamp and envelope, claim, failure, end of its lease, when it is due, since when it is dead: each '' if there
--           is none; 1 if it was cancelled or else 0; ids that hold the slots of its key and how many stand before it in `behind`, both '' if
--           it does not wait there; its checkpoint, '' if there is none; 1 if the rate of its key held it back before it started, or else 0 }
local id = ARGV[1]
local place, holders, ahead = ARGV[2] ~= '' and string.match(redis.call('HGET', KEYS[10], id) or '', '^(%d+) '), '', ''
if place and tonumber(place) > 0 then
  holders = redis.call('HGET', KEYS[11], ARGV[2]) or ''
  local count = redis.call('ZLEXCOUNT', KEYS[12], '[' .. ARGV[3], '(' .. ARGV[3] .. string.format('%016.0f', place))
  ahead = string.format('%.0f', count)
end
local claim = redis.call('HGET', KEYS[2], id)
return { redis.call('GET', KEYS[9]) or '', redis.call('HGET', KEYS[1], id) or '', claim or '',
         redis.call('HGET', KEYS[3], id) or '', lease_end(KEYS[4], KEYS[5], id, claim) or '',
         redis.call('ZSCORE', KEYS[7], id) or '', redis.call('ZSCORE', KEYS[8], id) or '',
         redis.call('SISMEMBER', KEYS[6], id), holders, ahead,
         redis.call('HGET', KEYS[13], id) or '', place == '00' and 1 or 0 }
