-- Writes and removes a key: refused where a push would be.
--
-- KEYS  1 probe
-- Returns nothing.
clock('')
redis.call('SET', KEYS[1], '')
redis.call('DEL', KEYS[1])
