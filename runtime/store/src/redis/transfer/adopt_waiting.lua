-- Adopts what raw producers wrote to a topic's ready Lists and delayed ZSET, in place: the next ones to come only. Sets elements
-- without a job aside where no raw producer writes.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row; then strays and raw
-- ARGV  1 now, ms ('': the server's clock)  2 topic  3 how many elements to look at in each place, at most 1,000
-- Returns how many elements were adopted.
local now, up = clock(ARGV[1])
local at, limit, adopted = partition(now, up, ''), tonumber(ARGV[3]), 0
local topic = topic_row(ARGV[2], 15)
despite_full_memory(at.due)

-- Calls `replace` with the place of each element that is no known id, and with the id that it has from now on. Then calls
-- `remove` with each that gets none.
local function is_used(id) return redis.call('HEXISTS', at.jobs, id) == 1 end
local raw = is_raw(KEYS[#KEYS], topic.name, now)
local function adopt_each(elements, replace, remove)
  if #elements == 0 then return end
  local strays = {}
  for i, body in ipairs(redis.call('HMGET', at.jobs, unpack(elements))) do
    if not body and not raw then
      strays[#strays + 1] = elements[i]
    elseif not body then
      adopted = adopted + 1
      local id, stored = adopt(is_used, topic.name, elements[i], now, adopted)
      store_adopted(at.jobs, at.topics, at.large, topic.name, id, stored, now)
      replace(i, id)
    end
  end
  for _, element in ipairs(strays) do
    remove(element)
    redis.call('LPUSH', KEYS[#KEYS - 1], element)
    redis.call('LTRIM', KEYS[#KEYS - 1], 0, 9999)
    note_used(at, topic)
    count(topic.name, 'stray')
  end
end

for _, key in pairs(topic.ready) do
  local elements = redis.call('LRANGE', key, -limit, -1)
  adopt_each(elements, function(i, id) redis.call('LSET', key, i - #elements - 1, id) end,
    function(element) redis.call('LREM', key, -1, element) end)
end
if not has_ready(topic) then redis.call('SREM', at.active, topic.name) end
local elements = redis.call('ZRANGE', topic.delayed, 0, limit - 1)
adopt_each(elements, function(i, id)
  local due = time_of(redis.call('ZSCORE', topic.delayed, elements[i]))
  redis.call('ZREM', topic.delayed, elements[i])
  redis.call('ZADD', topic.delayed, due, id)
end, function(element) redis.call('ZREM', topic.delayed, element) end)
mend_due(at, topic)
save_counts(KEYS[6])
return adopted
