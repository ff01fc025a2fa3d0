-- Notes how far running attempts are. A lease that is lost changes nothing.
--
-- KEYS  1 claims, then the progress of each job
-- ARGV  1 for how many ms that is kept, then per job: id, delivery, what is kept
-- Returns 1.
for i = 2, #KEYS do
  local id, delivery, value = unpack(ARGV, 3 * i - 4, 3 * i - 2)
  local deliveries, _, holder = parse_claim(redis.call('HGET', KEYS[1], id))
  if holder ~= '' and deliveries == tonumber(delivery) then redis.call('SET', KEYS[i], value, 'PX', ARGV[1]) end
end
return 1
