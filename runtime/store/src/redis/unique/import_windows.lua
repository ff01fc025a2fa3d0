-- Has unique values of one topic held for some time by jobs that were in another store and are over. A value that a job holds here is left to it.
--
-- KEYS  1 to 14: see waiting; then the topic's row
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic, then per value: the value, id of the job, for how many ms
-- Returns nothing.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic = topic_row(ARGV[3], 15)
for i = 4, #ARGV, 3 do
  local value = ARGV[i]
  if not holder_of(at, topic, value, redis.call('HGET', topic.unique, value)) then hold(at, topic, ARGV[i + 1], value, ARGV[i + 2]) end
end
save_holders(at, topic)
note_used(at, topic)
