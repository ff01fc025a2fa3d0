-- What is known of a job, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 claims  3 failures  4 leases  5 extended  6 cancelled  7 delayed  8 dead  9 result
-- ARGV  1 id
-- Returns { result, stamp and envelope, claim, failure, end of its lease, when it is due, since when it is dead: each '' if there
--           is none; 1 if it was cancelled or else 0 }
local id = ARGV[1]
local claim = redis.call('HGET', KEYS[2], id)
return { redis.call('GET', KEYS[9]) or '', redis.call('HGET', KEYS[1], id) or '', claim or '',
         redis.call('HGET', KEYS[3], id) or '', lease_end(KEYS[4], KEYS[5], id, claim) or '',
         redis.call('ZSCORE', KEYS[7], id) or '', redis.call('ZSCORE', KEYS[8], id) or '',
         redis.call('SISMEMBER', KEYS[6], id) }
