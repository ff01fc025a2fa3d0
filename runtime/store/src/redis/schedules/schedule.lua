-- Takes a step of one topic's schedules: replaces records and stores the jobs that come with them. Takes all of it or, if one of
-- the records is not what it was, nothing.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row; 23 schedules  24 ticks  25 manifests
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic  4 number of records
--       then per record: name of the schedule ('': the record of the topic's manifest), as it was ('': there was none),
--         as it is to be ('': there is to be none), when it is due, ms ('': never)
--       then the jobs: see read_new
-- Returns { 1 } the step is taken, { 0 } a record is another.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic = topic_row(ARGV[3], 15)
local schedules, ticks, manifests = KEYS[23], KEYS[24], KEYS[25]
local jobs = 5 + 4 * tonumber(ARGV[4])

-- The HASH and the field of the record that begins at ARGV[i].
local function place_of(i)
  if ARGV[i] == '' then return manifests, topic.name end
  return schedules, topic.name .. '/' .. ARGV[i]
end

for i = 5, jobs - 1, 4 do
  local key, field = place_of(i)
  if (redis.call('HGET', key, field) or '') ~= ARGV[i + 1] then return { 0 } end
end
expect('ZCARD', ticks)
local new = read_new({ topic }, jobs)

for i = 5, jobs - 1, 4 do
  local key, field = place_of(i)
  if ARGV[i + 2] == '' then redis.call('HDEL', key, field) else redis.call('HSET', key, field, ARGV[i + 2]) end
  if ARGV[i] ~= '' then
    if ARGV[i + 3] == '' then redis.call('ZREM', ticks, field) else redis.call('ZADD', ticks, ARGV[i + 3], field) end
  end
end
insert(at, new)
announce(at, topic)
save_counts(KEYS[6])

local first = redis.call('ZRANGE', ticks, 0, 0, 'WITHSCORES')[2]
if first then
  first = time_of(first)
  local known = redis.call('ZSCORE', at.due, SCHEDULES)
  redis.call('ZADD', at.due, first, SCHEDULES)
  if not known or first < tonumber(known) then publish_due(at.due, first, at.wake, topic.waiters) end
else
  redis.call('ZREM', at.due, SCHEDULES)
end
return { 1 }
