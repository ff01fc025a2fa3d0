-- Put in front of claim, whose KEYS and ARGV it reads: which ready jobs are taken, up to a bound in bytes. Only reads.

local HIGH, NORMAL, LOW, DELAYED, DEAD, STRAYS, WAITERS = 1, 2, 3, 4, 5, 6, 7
local function key(t, which) return KEYS[14 + 7 * t + which] end

-- What is taken, and how much of it: the ids, their stamps and envelopes or false, and what `claims` says or false.
local ids, bodies, history, taken = {}, {}, {}, 0
-- By key, how many elements are taken from a List. By name, whose turn it is next in a topic with several priorities.
local taken_of, turn_of = {}, {}
-- By index: why a topic's Lists are refused, and whether jobs were left in line because there was no room for them.
local refused, is_cut = {}, {}
local room = tonumber(ARGV[4])

-- How many elements of a List are read next. Ids are short, so the number grows, until there is an element that is too long to
-- be one: at most this many of those are read in vain.
local FIRST_READ, ID_MAX = 16, 64
local read_next = FIRST_READ

-- Where all jobs are normal and small, and nothing is paused, this is all that there is to ask.
local mixed, pauses, some_large, some_per_key = redis.call('EXISTS', KEYS[9], KEYS[10], KEYS[13], KEYS[17], KEYS[18]) > 0, nil, nil, nil
local some_tenant
if mixed then
  some_per_key, some_tenant = redis.call('EXISTS', KEYS[17]) == 1, redis.call('EXISTS', KEYS[18]) == 1
  mixed, pauses = redis.call('EXISTS', KEYS[9]) == 1, redis.call('EXISTS', KEYS[10]) == 1
  some_large = redis.call('EXISTS', KEYS[13]) == 1
end

-- A ready List of which at most `max` jobs are taken, oldest first: `ids[at]` is the next one.
local function line_of(t, priority, max)
  return { topic = t, key = key(t, priority), max = max, taken = 0, before = taken_of[key(t, priority)] or 0, ids = {}, at = 0,
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
  line.keyed = key_rate(line.topic, some_per_key) and redis.call('HMGET', KEYED, unpack(line.ids))
end

-- The next element of a line, which stays there; nil at the end. A key of another type stops only its own topic: an error
-- would end the script after it has taken jobs of others.
local function peek(line)
  if line.at == 0 and not line.is_read then
    local asked, last = math.min(read_next, line.max - line.taken), -line.before - line.taken - 1
    local read = redis.pcall('LRANGE', line.key, last + 1 - asked, last)
    if read.err then refused[line.topic], read = read.err, {} end
    line.ids, line.at, line.is_read = read, #read, #read < asked
    if #read > 0 then look_up(line) end
    read_next = read_next * 4
  end
  return line.ids[line.at]
end

-- Notes that the next job of a line is taken: true. False: there is no room for it. The first job of a call always has room. Nil: it leaves
-- the line, and is held back.
local function take(line)
  local at = line.at
  local id, body, claim = line.ids[at], line.bodies[at], line.history[at]
  local is_large = line.large and line.large[at] == 1
  local size = #id + (is_large and redis.call('HSTRLEN', KEYS[2], id) or #(body or ''))
  if claim then size = size + redis.call('HSTRLEN', KEYS[6], id) + redis.call('HSTRLEN', KEYS[7], id) end
  if size > room and taken > 0 or line.keyed and held_jobs == HELD_JOBS then return false end
  if line.keyed and (body or is_large) and is_held_back(line.topic, id, claim, line.keyed[at], key(line.topic, DELAYED), key(line.topic, DEAD)) then
    line.at, line.taken, line.max = at - 1, line.taken + 1, line.max + 1
    return nil
  end
  if is_large then body = redis.call('HGET', KEYS[2], id) end
  if #id > ID_MAX then read_next = FIRST_READ end
  room, taken = room - size, taken + 1
  ids[taken], bodies[taken], history[taken] = id, body, claim
  line.at, line.taken = at - 1, line.taken + 1
  return true
end

local function is_paused(name)
  return pauses and redis.call('SISMEMBER', KEYS[10], name) == 1
end

-- Takes at most `max` jobs of a topic: by turns where some have another priority than normal.
local function take_line(t, name, max)
  if is_paused(name) then return end
  local lines, turns, turn, before = { line_of(t, HIGH, max), line_of(t, NORMAL, max), line_of(t, LOW, max) }, ARGV[3], nil, taken
  if peek(lines[HIGH]) or peek(lines[LOW]) then turn = turn_of[name] or tonumber(redis.call('HGET', KEYS[11], name) or 0) end
  while taken - before < max do
    local priority = turn and tonumber(string.sub(turns, turn + 1, turn + 1)) or NORMAL
    if turn and not peek(lines[priority]) then
      priority = peek(lines[HIGH]) and HIGH or peek(lines[NORMAL]) and NORMAL or LOW
    end
    local line = lines[priority]
    if not line.ids[line.at] and not peek(line) then break end
    local is_taken = take(line)
    if is_taken == false then
      is_cut[t] = true
      break
    end
    if is_taken then turn = turn and (turn + 1) % #turns end
  end
  if taken == before and not held[t] then return end
  if turn then turn_of[name] = turn end
  for _, line in ipairs(lines) do
    if line.taken > 0 then taken_of[line.key] = line.before + line.taken end
  end
end
