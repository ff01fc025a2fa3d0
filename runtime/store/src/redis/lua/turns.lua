-- Put in front of claim, whose KEYS and ARGV it reads: which ready Lists the jobs are taken from.

local HIGH, NORMAL, LOW, DELAYED, DEAD, STRAYS = 1, 2, 3, 4, 5, 6
local function key(t, which) return KEYS[6 + 6 * t + which] end

-- What was taken, and the index of its topic. By index: why a topic's Lists are refused.
local ids, topic_of, refused = {}, {}, {}
-- Where all jobs are normal and nothing is paused, this is all that there is to ask.
local mixed, pauses = redis.call('EXISTS', KEYS[9], KEYS[10]) > 0, nil
if mixed then mixed, pauses = redis.call('EXISTS', KEYS[9]) == 1, redis.call('EXISTS', KEYS[10]) == 1 end

-- RPOPLPUSH for up to `max` jobs at once: a script is one step, so this is as safe, and two commands do for all. A key of
-- another type stops only its own topic: an error would end the script after it has taken jobs of others.
local function take(t, ready, processing, max)
  local oldest = redis.pcall('RPOP', ready, max)
  if not oldest then return end
  if oldest.err then
    refused[t] = oldest.err
    return
  end
  redis.call('LPUSH', processing, unpack(oldest))
  local n = #ids
  for i, id in ipairs(oldest) do ids[n + i], topic_of[n + i] = id, t end
end

-- How many jobs wait in a List of the topic: none if the key is something else.
local function waiting_in(t, ready)
  local length = redis.pcall('LLEN', ready)
  if type(length) == 'number' then return length end
  refused[t] = length.err
  return 0
end

-- Takes at most `max` jobs of a topic that has ready ones of several priorities, or of another than normal.
local function take_by_turns(t, name, max, waiting)
  local turns = ARGV[3]
  local turn = tonumber(redis.call('HGET', KEYS[11], name) or 0)
  max = math.min(max, waiting[HIGH] + waiting[NORMAL] + waiting[LOW])
  for _ = 1, max do
    local priority = tonumber(string.sub(turns, turn + 1, turn + 1))
    if waiting[priority] == 0 then
      priority = waiting[HIGH] > 0 and HIGH or waiting[NORMAL] > 0 and NORMAL or LOW
    end
    take(t, key(t, priority), KEYS[1], 1)
    waiting[priority], turn = waiting[priority] - 1, (turn + 1) % #turns
  end
  redis.call('HSET', KEYS[11], name, turn)
end

-- Takes at most `max` jobs of a topic.
local function take_line(t, name, max)
  if pauses and redis.call('SISMEMBER', KEYS[10], name) == 1 then return end
  local waiting = mixed and { waiting_in(t, key(t, HIGH)), waiting_in(t, key(t, NORMAL)), waiting_in(t, key(t, LOW)) }
  if waiting and waiting[HIGH] + waiting[LOW] > 0 then return take_by_turns(t, name, max, waiting) end
  take(t, key(t, NORMAL), KEYS[1], max)
end
