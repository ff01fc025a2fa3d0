-- The topics of stored jobs. Changes nothing.
--
-- KEYS  1 jobs
-- ARGV  ids
-- Returns per id: the name of its topic, or '' if no such job is stored, or it cannot be read. The envelope, a MessagePack map, begins with the topic.
local topics = {}
for i, id in ipairs(ARGV) do
  local head = string.sub(redis.call('HGET', KEYS[1], id) or '', 17, 300)
  local size, from = string.match(head, '^[\128-\143]\1612([\160-\191])()')
  if size then
    size = string.byte(size) - 160
  else
    size, from = string.match(head, '^[\128-\143]\1612\217(.)()')
    size = size and string.byte(size)
  end
  topics[i] = size and string.sub(head, from, from + size - 1) or ''
end
return topics
