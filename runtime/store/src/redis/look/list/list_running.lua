-- What is known of running jobs, by their ids. Changes nothing.
--
-- KEYS  1 to 3: see list; 4 leases  5 extended  6 cancelled
-- ARGV  1 and 2: see list; then ids
-- Returns { how many ids were looked at, { per job, 6: see list, then the end of its lease in ms, 1 if it was cancelled } }
for i = 3, #ARGV do
  local lease = lease_end(KEYS[4], KEYS[5], ARGV[i], redis.call('HGET', KEYS[2], ARGV[i]))
  if lease and not list(ARGV[i], lease, redis.call('SISMEMBER', KEYS[6], ARGV[i])) then return { i - 3, found } end
end
return { #ARGV - 2, found }
