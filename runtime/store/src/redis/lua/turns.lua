-- Put in front of claim, whose KEYS and ARGV it reads: which ready jobs are taken, up to a bound in bytes.

local HIGH, NORMAL, LOW, DELAYED, DEAD, STRAYS = 1, 2, 3, 4, 5, 6
local function key(t, which) return KEYS[6 + 6 * t + which] end

-- What was taken: the index of its topic, its stamp and envelope or false, and what `claims` says or false.
local ids, topic_of, bodies, history = {}, {}, {}, {}
-- By index: why a topic's Lists are refused, and whether jobs were left in line because there was no room for them.
local refused, is_cut = {}, {}
local room = tonumber(ARGV[4])

-- So many jobs of a List are read at once. At most this many large ones are read in vain.
local SLICE = 8

-- Where all jobs are normal and nothing is paused, this is all that there is to ask.
local mixed, pauses = redis.call('EXISTS', KEYS[9], KEYS[10]) > 0, nil
if mixed then mixed, pauses = redis.call('EXISTS', KEYS[9]) == 1, redis.call('EXISTS', KEYS[10]) == 1 end

-- A ready List that jobs are read from, oldest first: `slice[at]` is the next one.
local function line_of(t, priority)
  return { topic = t, key = key(t, priority), taken = 0, slice = {}, at = 0, is_read = not mixed and priority ~= NORMAL }
end

-- The next element of a line, which stays there; nil at the end. A key of another type stops only its own topic: an error
-- would end the script after it has taken jobs of others.
local function peek(line)
  if line.at == 0 and not line.is_read then
    local slice = redis.pcall('LRANGE', line.key, -line.taken - SLICE, -line.taken - 1)
    if slice.err then refused[line.topic], slice = slice.err, {} end
    line.slice, line.at, line.is_read = slice, #slice, #slice < SLICE
    if #slice > 0 then
      line.bodies, line.history = redis.call('HMGET', KEYS[2], unpack(slice)), redis.call('HMGET', KEYS[3], unpack(slice))
    end
  end
  return line.slice[line.at]
end

-- Notes that the next job of a line is taken. False: there is no room for it. The first job of a call always has room.
local function take(line)
  local n, at = #ids, line.at
  local id, body, claim = line.slice[at], line.bodies[at], line.history[at]
  local size = #id + #(body or '')
  if claim then size = size + redis.call('HSTRLEN', KEYS[6], id) + redis.call('HSTRLEN', KEYS[7], id) end
  if size > room and n > 0 then return false end
  room = room - size
  ids[n + 1], topic_of[n + 1], bodies[n + 1], history[n + 1] = id, line.topic, body, claim
  line.at, line.taken = at - 1, line.taken + 1
  return true
end

-- Takes at most `max` jobs of a topic: by turns where some have another priority than normal.
local function take_line(t, name, max)
  if pauses and redis.call('SISMEMBER', KEYS[10], name) == 1 then return end
  local lines, turns, turn, before = { line_of(t, HIGH), line_of(t, NORMAL), line_of(t, LOW) }, ARGV[3], nil, #ids
  if peek(lines[HIGH]) or peek(lines[LOW]) then turn = tonumber(redis.call('HGET', KEYS[11], name) or 0) end
  while #ids - before < max do
    local priority = turn and tonumber(string.sub(turns, turn + 1, turn + 1)) or NORMAL
    if turn and not peek(lines[priority]) then
      priority = peek(lines[HIGH]) and HIGH or peek(lines[NORMAL]) and NORMAL or LOW
    end
    if not peek(lines[priority]) then break end
    if not take(lines[priority]) then
      is_cut[t] = true
      break
    end
    turn = turn and (turn + 1) % #turns
  end
  if #ids == before then return end
  -- RPOPLPUSH for all of them at once: a script is one step, so this is as safe.
  redis.call('LPUSH', KEYS[1], unpack(ids, before + 1))
  for _, line in ipairs(lines) do
    if line.taken > 0 then redis.call('LTRIM', line.key, 0, -line.taken - 1) end
  end
  if turn then redis.call('HSET', KEYS[11], name, turn) end
end
