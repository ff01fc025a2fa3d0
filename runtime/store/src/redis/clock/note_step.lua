-- Notes that the server's clock was set. Several runners notice the same step: the first one notes it.
--
-- KEYS  1 clock of all tenants
-- ARGV  1 the number of the step before, or 0  2 the step, JSON  3 what is to be moved, JSON
-- Returns { 1 }, or { 0 } if another step was noted meanwhile.
if (redis.call('HGET', KEYS[1], 'number') or '0') ~= ARGV[1] then return { 0 } end
redis.call('HSET', KEYS[1], 'number', ARGV[1] + 1, 'step', ARGV[2], 'move', ARGV[3])
return { 1 }
