-- Makes dead jobs of one topic ready again, with all their attempts before them.
--
-- KEYS  1 to 14: see waiting; 15 to 22: the topic's row  23 claims  24 failures, then the result keys
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic
--       then per job: id, unique value that it holds until it is over ('': none)
-- Returns per job: 1 ready again, 0 it was not dead, or another job holds its unique value; as many as there was time for, at least one.
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])
local topic = topic_row(ARGV[3], 15)
expect_place(topic, '')

local function respawn(id, unique, result)
  local body = redis.call('HGET', at.jobs, id)
  if not body or not redis.call('ZSCORE', topic.dead, id) then return 0 end
  if unique ~= '' then
    local holder = holder_of(at, topic, unique, redis.call('HGET', topic.unique, unique))
    if holder and holder ~= id then return 0 end
    hold(at, topic, id, unique, '')
  end
  redis.call('ZREM', topic.dead, id)
  -- Deliveries go on counting, or a worker from the first life could settle the second. The time to live starts anew.
  redis.call('HSET', KEYS[23], id, parse_claim(redis.call('HGET', KEYS[23], id)) .. ':0:')
  redis.call('HSET', at.jobs, id, string.sub(body, 1, 8) .. struct.pack('>I8', now) .. string.sub(body, 17))
  redis.call('HDEL', KEYS[24], id)
  redis.call('DEL', result)
  reopen(id)
  if some_links() and waits_for_some(id) then stand_by(topic, id) else wait(at, topic, id, now) end
  return 1
end

local answers = {}
for i = 4, #ARGV, 2 do
  if room <= 0 then break end
  answers[#answers + 1] = respawn(ARGV[i], ARGV[i + 1], KEYS[24 + (i - 2) / 2])
end
save_holders(at, topic)
announce(at, topic)
return answers
