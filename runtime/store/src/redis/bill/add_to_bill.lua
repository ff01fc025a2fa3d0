-- Adds costs to a tenant's bill, once.
--
-- KEYS  1 number of the writer's last entry  2 what all writers have used  3... bills, one for each day
-- ARGV  1 number of this entry  2 for how long the first two are kept, ms  3 what the writer has used, us
--       then for each bill  until when it is kept, ms  how many fields it is about, and for each of them its name and what to add
-- Returns what all writers have used, us.
local last = redis.call('GET', KEYS[1])
if last and tonumber(last) >= tonumber(ARGV[1]) then return tonumber(redis.call('GET', KEYS[2]) or 0) end
local used = tonumber(redis.call('GET', KEYS[2]) or 0) + tonumber(ARGV[3])
redis.call('SET', KEYS[2], string.format('%.0f', used), 'PX', ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local at = 4
for key = 3, #KEYS do
  local keep_until = ARGV[at]
  local fields = tonumber(ARGV[at + 1])
  at = at + 2
  for _ = 1, fields do
    redis.call('HINCRBY', KEYS[key], ARGV[at], ARGV[at + 1])
    at = at + 2
  end
  redis.call('PEXPIREAT', KEYS[key], keep_until)
end
return used
