-- Takes the bill of a day out, to be added to that of another store: it is set aside. One that was taken before and not dropped is left.
--
-- KEYS  1 bill  2 what was taken of it
-- ARGV  1 mark
-- Returns what was taken: each field and its value. The field '' has the mark that it was taken with. Nothing if there is none.
if redis.call('EXISTS', KEYS[2]) == 0 then
  local fields = redis.call('HGETALL', KEYS[1])
  if #fields == 0 then return fields end
  local left = redis.call('PTTL', KEYS[1])
  redis.call('HSET', KEYS[2], '', ARGV[1])
  many('HSET', KEYS[2], fields)
  if left > 0 then redis.call('PEXPIRE', KEYS[2], left) end
  redis.call('DEL', KEYS[1])
end
return redis.call('HGETALL', KEYS[2])
