-- Wakes another runner that waits for a topic with ready jobs.
--
-- KEYS  1 active  2 waiters
-- ARGV  1 topic
-- Returns nothing.
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then wake_one(KEYS[2], ready_message(KEYS[1], ARGV[1])) end
