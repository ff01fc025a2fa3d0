-- Put, after line, in front of the scripts that make jobs wait or no longer wait: push, schedule, settle, migrate, respawn, cancel, change, pause,
-- sweep, delete_dead, poll_raw, adopt_waiting, import, import_windows, remove_exported, forget_topic, seal, carry, look_up; and of fsck_topic and
-- fsck_jobs. Their KEYS begin with
--
--   1 jobs  2 priorities  3 active  4 due  5 topics  6 counts  7 paused  8 perishable  9 large
--   10 keyed  11 slots  12 behind  13 per-key  14 links
--
-- and name for each topic a row of eight: ready of high, normal and low priority, delayed, unique, windows, dead, waiters.

-- When a job is due that waits for other jobs: at a time that never comes.
local NEVER = 99999999999999

local function partition(now, up, wake)
  return { now = now, up = up, wake = wake, jobs = KEYS[1], priorities = KEYS[2], active = KEYS[3], due = KEYS[4],
           topics = KEYS[5], paused = KEYS[7], perishable = KEYS[8], large = KEYS[9],
           keyed = KEYS[10], slots = KEYS[11], behind = KEYS[12], per_key = KEYS[13], walked = 0,
           lines = {}, changed = {}, noted = {}, in_lines = {} }
end

-- The topic whose row begins at KEYS[first]. `arrived` and `later` gather what announce() carries out.
local function topic_row(name, first)
  return { name = name, ready = { high = KEYS[first], normal = KEYS[first + 1], low = KEYS[first + 2] },
           delayed = KEYS[first + 3], unique = KEYS[first + 4], windows = KEYS[first + 5], dead = KEYS[first + 6],
           waiters = KEYS[first + 7], arrived = {}, later = {} }
end

-- When a job is due, in ms: '' is now, '+n' is n ms from now, with the fraction that the time has, 'n' is that point in time or now if it is past.
local function due_time(at, due)
  if due == '' then return at.now end
  if string.sub(due, 1, 1) == '+' then return exact + tonumber(due) end
  return math.max(at.now, tonumber(due))
end

-- Reads a key in which the script is to put a job. If another program has made something else of it, the script ends here: before its
-- first write.
local expected = {}
local function expect(command, key)
  if not expected[key] then redis.call(command, key) end
  expected[key] = true
end

-- The same for where wait() puts a job. `due`: '' is now. `priority`: '' is normal, nil any.
local function expect_place(topic, due, priority)
  if due ~= '' then expect('ZCARD', topic.delayed) end
  if priority then
    expect('LLEN', topic.ready[priority == '' and 'normal' or priority])
  else
    for _, ready in pairs(topic.ready) do expect('LLEN', ready) end
  end
end

-- The same for where jobs with keys are noted.
local function expect_keys()
  expect('HLEN', KEYS[10])
  expect('HLEN', KEYS[11])
  expect('ZCARD', KEYS[12])
end

-- Whether some jobs have another priority than normal, or a key. Where none has, one question per script is all it costs.
local function some_special(at)
  if at.special == nil then at.special = redis.call('EXISTS', at.priorities, at.keyed) > 0 end
  return at.special
end

-- The priority of a stored job.
local function priority_of(at, id)
  if not some_special(at) then return 'normal' end
  if at.prioritised == nil then at.prioritised = redis.call('EXISTS', at.priorities) == 1 end
  return at.prioritised and redis.call('HGET', at.priorities, id) or 'normal'
end

-- Notes that the job goes to the tail of its line; announce() carries it out.
local function line_up(at, topic, id, priority)
  priority = priority or priority_of(at, id)
  local arrived = topic.arrived[priority]
  if arrived then arrived[#arrived + 1] = id else topic.arrived[priority] = { id } end
end

-- The key of a stored job, and the segment of the line where it stands if it waits for that: of one that does not wait any more it may be an
-- earlier one. Nothing if it has no key.
local function key_of(at, id)
  local stored = at.noted[id] or some_special(at) and redis.call('HGET', at.keyed, id)
  if not stored then return nil end
  local place, key = string.match(stored, '^(%d+) (.*)$')
  return key, tonumber(place)
end

-- Notes the key of a job; lines.save() writes it.
local function note_key(at, id, place, key)
  at.noted[id], at.special = string.format('%.0f ', place) .. key, true
end

-- How many slots a key of the topic has, and whether a dead job keeps its own.
local function key_limits(at, topic)
  if not topic.slots then
    local slots, on_dead = string.match(redis.call('HGET', at.per_key, topic.name) or '', '^(%d+):(.*)$')
    topic.slots, topic.halts = tonumber(slots) or 1, on_dead == 'halt'
  end
  return topic.slots, topic.halts
end

-- Reads the lines of keys, each once a script.
function lines.fetch(at, topic, keys)
  local fields = {}
  for _, key in ipairs(keys) do
    local field = topic.name .. ' ' .. key
    if not at.lines[field] then fields[#fields + 1], at.lines[field] = field, true end
  end
  if #fields == 0 then return end
  for i, stored in ipairs(ask('HMGET', at.slots, fields)) do
    local line = lines.read(fields[i], stored)
    at.lines[fields[i]], line.was_waiting = line, line.head ~= ''
  end
end

-- The line of a key. Who changes it calls lines.note().
function lines.of(at, topic, key)
  local field = topic.name .. ' ' .. key
  if not at.lines[field] then lines.fetch(at, topic, { key }) end
  return at.lines[field]
end

-- Notes that a line has changed, and that so many more jobs of the topic wait in lines; lines.save() writes it.
function lines.note(at, topic, line, more)
  if not line.is_changed then line.is_changed, at.changed[#at.changed + 1] = true, line end
  at.in_lines[topic.name] = (at.in_lines[topic.name] or 0) + more
end

-- Writes what has changed: few commands, however many lines they are.
function lines.save(at)
  if #at.changed == 0 and not next(at.noted) then return end
  local kept, empty, begun, over, noted = {}, {}, {}, {}, {}
  for _, line in ipairs(at.changed) do
    local text, waits = table.concat(line.holders, ' '), line.head ~= ''
    if waits then text = text .. string.format('\n%.0f %.0f\n', line.first, line.last) .. line.head .. '\n' .. line.tail end
    if text == '' then empty[#empty + 1] = line.field else kept[#kept + 1], kept[#kept + 2] = line.field, text end
    if waits and not line.was_waiting then begun[#begun + 1], begun[#begun + 2] = 0, line.field end
    if line.was_waiting and not waits then over[#over + 1] = line.field end
    line.was_waiting, line.is_changed = waits, nil
  end
  for id, text in pairs(at.noted) do noted[#noted + 1], noted[#noted + 2] = id, text end
  many('HSET', at.slots, kept)
  many('HDEL', at.slots, empty)
  many('ZADD', at.behind, begun)
  many('ZREM', at.behind, over)
  many('HSET', at.keyed, noted)
  for name, more in pairs(at.in_lines) do
    if more ~= 0 and redis.call('HINCRBY', at.slots, ' ' .. name, more) == 0 then redis.call('HDEL', at.slots, ' ' .. name) end
  end
  at.changed, at.noted, at.in_lines = {}, {}, {}
end

-- A segment is full with so many bytes: the end of a job reads and writes two of them, and one end in a dozen reads another.
lines.SEGMENT = 512

-- Puts a job at the end of a line, and returns its segment.
function lines.join(at, line, id)
  if line.head == '' then
    line.head = id
    return line.first
  elseif line.tail == '' and line.last == line.first and #line.head < lines.SEGMENT then
    line.head = line.head .. ' ' .. id
    return line.first
  end
  line.tail = line.tail == '' and id or line.tail .. ' ' .. id
  local place = line.last + 1
  if #line.tail >= lines.SEGMENT then
    redis.call('HSET', at.slots, lines.field_of(line, place), line.tail)
    line.last, line.tail = place, ''
  end
  return place
end

-- Fills the head of a line, if it is used up, with the next segment that there is.
function lines.fill_head(at, line)
  while line.head == '' and line.first < line.last do
    line.first = line.first + 1
    local field = lines.field_of(line, line.first)
    line.head = redis.call('HGET', at.slots, field) or ''
    if line.head ~= '' then redis.call('HDEL', at.slots, field) end
  end
  if line.head == '' and line.tail ~= '' then
    line.first, line.last, line.head, line.tail = line.last + 1, line.last + 1, line.tail, ''
  end
end

-- Gives the job a slot of its key, however many are held.
local function hold_slot(at, topic, id, key)
  local line = lines.of(at, topic, key)
  line.holders[#line.holders + 1] = id
  lines.note(at, topic, line, 0)
end

-- Gives the job, which is due, a slot of its key, and returns true. If there is none, or other jobs have waited for longer, it waits behind
-- them: false.
local function take_slot(at, topic, id, key)
  local line = lines.of(at, topic, key)
  if lines.holds(line, id) then return true end
  if #line.holders == 0 or line.head == '' and #line.holders < key_limits(at, topic) then
    hold_slot(at, topic, id, key)
    return true
  end
  note_key(at, id, lines.join(at, line, id), key)
  lines.note(at, topic, line, 1)
  note_used(at, topic)
  return false
end

-- These jobs are gone, or dead, or wait for a time: the slots that they held of their keys, if they have any, go to the jobs that have
-- waited for the longest. `are_gone`: their keys are forgotten. announce() is left to the caller. Takes few commands, however many jobs
-- they are.
local function free_slots(at, topic, ids, are_gone)
  local stored, of_key, keys, keyed = some_special(at) and ask('HMGET', at.keyed, ids) or {}, {}, {}, {}
  for i, id in ipairs(ids) do
    local key = stored[i] and string.match(stored[i], '^%d+ (.*)$')
    if key then
      if not of_key[key] then of_key[key], keys[#keys + 1] = {}, key end
      of_key[key][id], keyed[#keyed + 1] = true, id
    end
  end
  if #keys == 0 then return end
  if are_gone then many('HDEL', at.keyed, keyed) end
  local most = key_limits(at, topic)
  lines.fetch(at, topic, keys)
  for _, key in ipairs(keys) do
    local line, holders, called = lines.of(at, topic, key), {}, 0
    for _, holder in ipairs(line.holders) do
      if not of_key[key][holder] then holders[#holders + 1] = holder end
    end
    if #holders < #line.holders then
      while line.head ~= '' and #holders < most do
        local blank = string.find(line.head, ' ', 1, true) or #line.head + 1
        local id = string.sub(line.head, 1, blank - 1)
        line.head, called, holders[#holders + 1] = string.sub(line.head, blank + 1), called + 1, id
        lines.fill_head(at, line)
        line_up(at, topic, id)
      end
      line.holders = holders
      lines.note(at, topic, line, -called)
    end
  end
end

-- Notes that the job waits until `due`; announce() carries it out. `key`: false if it has none or holds a slot of it, nil if that is not
-- known.
local function wait(at, topic, id, due, priority, key)
  if due <= exact then
    if key == nil then key = key_of(at, id) end
    if not key or take_slot(at, topic, id, key) then line_up(at, topic, id, priority) end
  else
    topic.later[#topic.later + 1] = due
    topic.later[#topic.later + 1] = id
    topic.next = math.min(topic.next or due, due)
  end
end

-- Notes that the job waits for others, whatever the time; announce() carries it out.
local function stand_by(topic, id)
  topic.later[#topic.later + 1], topic.later[#topic.later + 2] = NEVER, id
end

-- Notes that a job of the topic is due at `due`, ms; publishes that only if no other topic is due by then.
local function alarm(at, topic, due)
  if redis.call('ZADD', at.due, 'LT', 'CH', due, topic.name) == 0 then return end
  note_used(at, topic)
  publish_due(at.due, due, at.wake, topic.waiters)
end

-- Writes what is noted of keys, and puts jobs that go to the tail of their line there. The caller wakes the topic.
local function place(at, topic)
  lines.save(at)
  for priority, ids in pairs(topic.arrived) do
    many('LPUSH', topic.ready[priority], ids)
    topic.placed = true
  end
  topic.arrived = {}
end

-- Carries out what wait() noted. Topics are added to `topics` at just these moments.
local function announce(at, topic)
  place(at, topic)
  if topic.placed then wake(at, topic) end
  if #topic.later > 0 then
    many('ZADD', topic.delayed, topic.later)
    if topic.next then alarm(at, topic, topic.next) else note_used(at, topic) end
  end
  topic.placed, topic.later, topic.next = nil, {}, nil
end

-- A score as a time that can be kept. Others may have written any score.
local function time_of(score)
  return math.min(math.max(tonumber(score), 0), NEVER)
end

-- When the next delayed job of the topic is due, or nil.
local function next_due(topic)
  local score = redis.call('ZRANGE', topic.delayed, 0, 0, 'WITHSCORES')[2]
  return score and tonumber(score) < NEVER and time_of(score) or nil
end

-- Puts `due` right after jobs have left the topic's delayed ones.
local function mend_due(at, topic)
  local due = next_due(topic)
  if due then redis.call('ZADD', at.due, due, topic.name) else redis.call('ZREM', at.due, topic.name) end
end

local function has_ready(topic)
  return redis.call('EXISTS', topic.ready.high, topic.ready.normal, topic.ready.low) > 0
end

-- Takes a job out of a segment of a line: whether it was there.
function lines.leave(at, topic, line, place, id)
  if place == 0 or lines.holds(line, id) then return false end
  local others, is_there = {}, false
  for other in string.gmatch(lines.segment(at.slots, line, place), '%S+') do
    if other == id then is_there = true else others[#others + 1] = other end
  end
  if not is_there then return false end
  local rest = table.concat(others, ' ')
  if place <= line.first then
    line.head = rest
    lines.fill_head(at, line)
  elseif place > line.last then
    line.tail = rest
  elseif rest == '' then
    redis.call('HDEL', at.slots, lines.field_of(line, place))
  else
    redis.call('HSET', at.slots, lines.field_of(line, place), rest)
  end
  lines.note(at, topic, line, -1)
  return true
end

-- Takes a waiting job out of its place: whether it was there. The end of a List that is claimed from is looked at first.
-- `walked` counts how many entries were walked through for it, at most. after_leaving() is left to the caller.
local function take_out(at, topic, id)
  if redis.call('ZREM', topic.delayed, id) == 1 then
    mend_due(at, topic)
    return true
  end
  local key, place = key_of(at, id)
  if key and lines.leave(at, topic, lines.of(at, topic, key), place, id) then return true end
  local ready = topic.ready[priority_of(at, id)]
  at.walked = at.walked + redis.call('LLEN', ready)
  return redis.call('LREM', ready, -1, id) == 1
end

-- Jobs were taken out of their places, and others have perhaps got the slots of their keys.
local function after_leaving(at, topic)
  if not has_ready(topic) then
    redis.call('SREM', at.active, topic.name)
  elseif topic.placed then
    wake(at, topic)
  end
end
