-- Makes dead jobs of one topic ready again, with all their attempts before them.
--
-- KEYS  1 jobs  2 active  3 due  4 topics  5 counts  6 claims  7 failures  8 ready  9 dead  10 unique, then the result keys
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel  3 topic, then per job: id, unique value ('': none)
-- Returns per job: 1 ready again, 0 it was not dead, or another waiting or running job holds its unique value.
local now, up = clock(ARGV[1])
local at = { now = now, up = up, jobs = KEYS[1], active = KEYS[2], due = KEYS[3], topics = KEYS[4], wake = ARGV[2] }
local topic = { name = ARGV[3], ready = KEYS[8], arrived = {}, later = {} }

local function respawn(id, unique, result)
  local body = redis.call('HGET', at.jobs, id)
  if not body or not redis.call('ZSCORE', KEYS[9], id) then return 0 end
  if unique ~= '' then
    local holder = redis.call('HGET', KEYS[10], unique)
    if holder and holder ~= id and redis.call('HEXISTS', at.jobs, holder) == 1 then return 0 end
    redis.call('HSET', KEYS[10], unique, id)
  end
  redis.call('ZREM', KEYS[9], id)
  -- Deliveries go on counting, or a worker from the first life could settle the second. The time to live starts anew.
  redis.call('HSET', KEYS[6], id, parse_claim(redis.call('HGET', KEYS[6], id)) .. ':0:')
  redis.call('HSET', at.jobs, id, string.sub(body, 1, 8) .. struct.pack('>I8', now) .. string.sub(body, 17))
  redis.call('HDEL', KEYS[7], id)
  redis.call('DEL', result)
  wait(at, topic, id, now)
  return 1
end

local answers = {}
for i = 4, #ARGV, 2 do
  answers[#answers + 1] = respawn(ARGV[i], ARGV[i + 1], KEYS[10 + (i - 2) / 2])
end
announce(at, topic)
return answers
