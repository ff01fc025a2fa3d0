-- Drops a bill that was taken out and is in another store now.
--
-- KEYS  1 what was taken
-- ARGV  1 its mark
-- Returns 1 dropped, 0 it is gone, or was taken with another mark.
if redis.call('HGET', KEYS[1], '') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
