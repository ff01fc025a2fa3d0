-- Frees the unique values of a topic that are held for a time, at most 1,000.
--
-- KEYS  1 unique  2 windows
-- Returns { how many }.
local values = redis.call('ZRANGE', KEYS[2], 0, 999)
for _, value in ipairs(values) do
  local stored = redis.call('HGET', KEYS[1], value)
  -- One that a job holds until it is done stays held.
  if stored and string.find(stored, '^%S+ %d+$') then redis.call('HDEL', KEYS[1], value) end
  redis.call('ZREM', KEYS[2], value)
end
return { #values }
