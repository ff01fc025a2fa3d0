-- Seals a batch: it gets no more members, and starts once all that it has have ended.
--
-- KEYS  1 to 14: see waiting
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 id
-- Returns 1 sealed, 2 it was sealed before, 0 it is no batch that waits.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local id = ARGV[3]
local topic = linked_topic(id)
if not topic or not stands_by(topic, id) then return 0 end
expect_place(topic, 'delayed')
expect_keys()
despite_full_memory(at.due)
if redis.call('ZREM', links, 'w ' .. id .. ' o ') == 0 then return 2 end
release(at, id)
announce_linked(at)
return 1
