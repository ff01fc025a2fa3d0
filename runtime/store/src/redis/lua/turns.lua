-- Put in front of claim, whose KEYS and ARGV it reads: which ready jobs are taken, up to a bound in bytes.

local HIGH, NORMAL, LOW, DELAYED, DEAD, STRAYS, WAITERS = 1, 2, 3, 4, 5, 6, 7
local function key(t, which) return KEYS[6 + 7 * t + which] end

-- What was taken: the index of its topic, its stamp and envelope or false, and what `claims` says or false.
local ids, topic_of, bodies, history = {}, {}, {}, {}
-- By index: why a topic's Lists are refused, and whether jobs were left in line because there was no room for them.
local refused, is_cut = {}, {}
local room = tonumber(ARGV[4])

-- So many elements of a List are read next. Ids are short, so the number grows, until there is an element that is too long to
-- be one: at most so many of those are read in vain.
local FIRST_READ, ID_MAX = 16, 64
local read_next = FIRST_READ

-- Where all jobs are normal and small, and nothing is paused, this is all that there is to ask.
local mixed, pauses, some_large = redis.call('EXISTS', KEYS[9], KEYS[10], KEYS[13]) > 0, nil, nil
if mixed then
  mixed, pauses = redis.call('EXISTS', KEYS[9]) == 1, redis.call('EXISTS', KEYS[10]) == 1
  some_large = redis.call('EXISTS', KEYS[13]) == 1
end

-- A ready List of which at most `max` jobs are taken, oldest first: `ids[at]` is the next one.
local function line_of(t, priority, max)
  return { topic = t, key = key(t, priority), max = max, taken = 0, ids = {}, at = 0,
           is_read = not mixed and priority ~= NORMAL }
end

-- Reads what is stored of the jobs in `line.ids`, but for large ones.
local function look_up(line)
  local small = line.ids
  line.large = some_large and redis.call('SMISMEMBER', KEYS[13], unpack(line.ids))
  if line.large then
    small = {}
    -- No job has an empty id.
    for i, id in ipairs(line.ids) do small[i] = line.large[i] == 1 and '' or id end
  end
  line.bodies, line.history = redis.call('HMGET', KEYS[2], unpack(small)), redis.call('HMGET', KEYS[3], unpack(line.ids))
end

-- The next element of a line, which stays there; nil at the end. A key of another type stops only its own topic: an error
-- would end the script after it has taken jobs of others.
local function peek(line)
  if line.at == 0 and not line.is_read then
    local asked = math.min(read_next, line.max - line.taken)
    local read = redis.pcall('LRANGE', line.key, -line.taken - asked, -line.taken - 1)
    if read.err then refused[line.topic], read = read.err, {} end
    line.ids, line.at, line.is_read = read, #read, #read < asked
    if #read > 0 then look_up(line) end
    read_next = read_next * 4
  end
  return line.ids[line.at]
end

-- Notes that the next job of a line is taken. False: there is no room for it. The first job of a call always has room.
local function take(line)
  local n, at = #ids, line.at
  local id, body, claim = line.ids[at], line.bodies[at], line.history[at]
  local is_large = line.large and line.large[at] == 1
  local size = #id + (is_large and redis.call('HSTRLEN', KEYS[2], id) or #(body or ''))
  if claim then size = size + redis.call('HSTRLEN', KEYS[6], id) + redis.call('HSTRLEN', KEYS[7], id) end
  if size > room and n > 0 then return false end
  if is_large then body = redis.call('HGET', KEYS[2], id) end
  if #id > ID_MAX then read_next = FIRST_READ end
  room = room - size
  ids[n + 1], topic_of[n + 1], bodies[n + 1], history[n + 1] = id, line.topic, body, claim
  line.at, line.taken = at - 1, line.taken + 1
  return true
end

-- Takes at most `max` jobs of a topic: by turns where some have another priority than normal.
local function take_line(t, name, max, now)
  if pauses and redis.call('SISMEMBER', KEYS[10], name) == 1 then return end
  local lines, turns, turn, before = { line_of(t, HIGH, max), line_of(t, NORMAL, max), line_of(t, LOW, max) }, ARGV[3], nil, #ids
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
  -- Before the first job is taken: whatever stops this script, they come back when the lease ends.
  if before == 0 then redis.call('ZADD', KEYS[4], now + tonumber(ARGV[5]), ARGV[2]) end
  -- RPOPLPUSH for all of them at once: a script is one step, so this is as safe.
  redis.call('LPUSH', KEYS[1], unpack(ids, before + 1))
  for _, line in ipairs(lines) do
    if line.taken > 0 then redis.call('LTRIM', line.key, 0, -line.taken - 1) end
  end
  if turn then redis.call('HSET', KEYS[11], name, turn) end
end
