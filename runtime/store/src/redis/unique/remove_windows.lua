-- Frees unique values that jobs hold for some time, without a signal.
--
-- KEYS  1 unique values of the topic  2 its windows
-- ARGV  per value: the value, id of the job that must hold it
-- Returns nothing.
redis.call('ZREM', KEYS[2], '')
for i = 1, #ARGV, 2 do
  if string.match(redis.call('HGET', KEYS[1], ARGV[i]) or '', '^(%S+) %d+$') == ARGV[i + 1] then
    redis.call('HDEL', KEYS[1], ARGV[i])
    redis.call('ZREM', KEYS[2], ARGV[i])
  end
end
