-- Saves what a job's next attempt shall see.
--
-- KEYS  1 claims  2 checkpoints
-- ARGV  1 id  2 delivery  3 holder  4 checkpoint, opaque bytes
-- Returns 1 saved, 0 the lease is lost and nothing was changed.
if not is_running(redis.call('HGET', KEYS[1], ARGV[1]), ARGV[2], ARGV[3]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
return 1
