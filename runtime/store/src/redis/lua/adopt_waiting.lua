-- Adopts what others wrote to a topic's ready Lists and delayed ZSET, in place: the next ones to come only.
--
-- KEYS  1 to 9: see waiting; 10 to 16: the topic's row
-- ARGV  1 now, ms ('': the server's clock)  2 topic  3 how many elements to look at in each place, at most 1,000
-- Returns how many elements were adopted.
local now, up = clock(ARGV[1])
local at, limit, adopted = partition(now, up, ''), tonumber(ARGV[3]), 0
local topic = topic_row(ARGV[2], 10)
despite_full_memory(at.due)

-- Calls `replace` with the place of each element that is no known id, and with the id that it has from now on.
local function adopt_each(elements, replace)
  if #elements == 0 then return end
  for i, body in ipairs(redis.call('HMGET', at.jobs, unpack(elements))) do
    if not body then
      adopted = adopted + 1
      replace(i, (adopt(at.jobs, at.topics, at.large, topic.name, elements[i], now, adopted)))
    end
  end
end

for _, key in pairs(topic.ready) do
  local elements = redis.call('LRANGE', key, -limit, -1)
  adopt_each(elements, function(i, id) redis.call('LSET', key, i - #elements - 1, id) end)
end
local elements = redis.call('ZRANGE', topic.delayed, 0, limit - 1)
adopt_each(elements, function(i, id)
  local due = whole_ms(redis.call('ZSCORE', topic.delayed, elements[i]))
  redis.call('ZREM', topic.delayed, elements[i])
  redis.call('ZADD', topic.delayed, due, id)
end)
save_counts(KEYS[6])
return adopted
