-- Adds costs to a tenant's bill, once.
--
-- KEYS  1 number of the writer's last entry  2... bills, one for each day
-- ARGV  1 number of this entry  2 for how long the number is kept, ms
--       then for each bill  until when it is kept, ms  how many fields it is about, and for each of them its name and what to add
-- Returns 1 added, 0 it was added before.
local last = redis.call('GET', KEYS[1])
if last and tonumber(last) >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local at = 3
for key = 2, #KEYS do
  local keep_until = ARGV[at]
  local fields = tonumber(ARGV[at + 1])
  at = at + 2
  for _ = 1, fields do
    redis.call('HINCRBY', KEYS[key], ARGV[at], ARGV[at + 1])
    at = at + 2
  end
  redis.call('PEXPIREAT', KEYS[key], keep_until)
end
return 1
