-- Spreads a topic over more partitions.
--
-- KEYS  1 partitions
-- ARGV  1 topic, with its tenant  2 how many partitions  3 when they begin, in ms from now  4 how many all of a topic may be
-- Returns 1 it is so from then on, 0 it has as many already and nothing was changed, -1 these are too many.
local record, wanted, all = redis.call('HGET', KEYS[1], ARGV[1]) or '', tonumber(ARGV[2]), 1
for partitions in string.gmatch(record, '(%d+):') do
  if tonumber(partitions) >= wanted then return 0 end
  all = all + tonumber(partitions)
end
if all + wanted > tonumber(ARGV[4]) then return -1 end
local _, now = clock('')
local stage = string.format('%.0f:%.0f', wanted, now + tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], ARGV[1], record == '' and stage or record .. ' ' .. stage)
return 1
