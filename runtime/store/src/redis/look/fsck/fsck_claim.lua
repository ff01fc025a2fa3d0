-- What is wrong with a claim, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 claims  3 leases  4 extended  5 its processing list
-- ARGV  1 its holder
-- Returns 1 if it has a lease or else 0; how many jobs its list has; how many of them have no lease of their own; and the ids in its list of
--   jobs that it does not run
local ids = redis.call('LRANGE', KEYS[5], 0, -1)
local answer, without = { redis.call('ZSCORE', KEYS[3], ARGV[1]) and 1 or 0, #ids, 0 }, 0
for _, id in ipairs(ids) do
  local _, _, holder = parse_claim(redis.call('HGET', KEYS[2], id))
  if holder ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], id) == 0 then answer[#answer + 1] = id end
  if not redis.call('ZSCORE', KEYS[4], id) then without = without + 1 end
end
answer[3] = without
return answer
