-- Put, after waiting, in front of the scripts that store jobs or know of unique values: push, schedule, settle, respawn,
-- sweep, import, import_windows, look_up. Reads new jobs from ARGV: see read_new. The last of KEYS is the outbox, if some of them are for another partition.

-- The job that holds a unique value of the topic, if one does: until it is gone, or until a window of time has passed.
-- `stored`: what `unique` says of the value.
local function holder_of(at, topic, value, stored)
  local noted = topic.noted and topic.noted[value]
  if noted or not stored then return noted end
  local id, expiry = string.match(stored, '^(%S+) (%d+)$')
  if id then return tonumber(expiry) > at.now and id or nil end
  return redis.call('HEXISTS', at.jobs, stored) == 1 and stored or nil
end

-- Forgets at most so many windows of the topic that have passed.
local function purge_windows(at, topic, limit)
  local passed = redis.call('ZRANGEBYSCORE', topic.windows, '-inf', at.now, 'LIMIT', 0, limit)
  many('HDEL', topic.unique, passed)
  many('ZREM', topic.windows, passed)
end

-- Notes that the job gets the value until it is over, or for a window of so many ms ('': until it is over); save_holders() carries
-- it out.
local function hold(at, topic, id, value, window)
  if not topic.noted then topic.noted, topic.holders, topic.open, topic.ends = {}, {}, {}, {} end
  local holder, n = id, #topic.holders
  topic.noted[value] = id
  if window == '' then
    topic.open[#topic.open + 1] = value
  else
    local expiry, last = string.format('%.0f', at.up + tonumber(window)), #topic.ends
    holder = id .. ' ' .. expiry
    -- A window of no time is over for the next job already.
    if tonumber(expiry) <= at.now then topic.noted[value] = nil end
    topic.ends[last + 1], topic.ends[last + 2] = expiry, value
  end
  topic.holders[n + 1], topic.holders[n + 2] = value, holder
end

-- Carries out what hold() noted.
local function save_holders(at, topic)
  if not topic.noted then return end
  -- Each new window makes room for itself and more: what has passed cannot pile up.
  if #topic.ends > 0 then purge_windows(at, topic, 2 * #topic.ends) end
  many('HSET', topic.unique, topic.holders)
  if #topic.ends > 0 then
    many('ZADD', topic.windows, topic.ends)
    redis.call('SADD', at.perishable, topic.name)
  end
  -- Also one that another job of this call held for no time.
  if #topic.open > 0 and redis.call('EXISTS', topic.windows) == 1 then many('ZREM', topic.windows, topic.open) end
  topic.noted = nil
end

-- Reads the new jobs that end ARGV, from `first` on, in runs of jobs that are alike:
--   index of their topic (0: another partition is to have them, they go to the outbox, the last of KEYS), due ('': now, '+n': in n ms, 'n': at n ms), priority ('': normal), for how long they hold a unique value
--   ('-': they have none, '': until the job is over, n: for n ms), '1' if they have keys or '', '1' if they wait for other jobs or are members of a batch or '', how many they are
--   then per job: id, envelope, its unique value if they have one, its key if they have one, what read_links() reads if they wait for other jobs, and if they follow settlements the position of its own
-- Each place that they are put in is looked at: see expect.
local function read_new(topics, first, follow)
  local new, ids, n = { runs = {}, ids = {}, follow = follow }, nil, 0
  ids = new.ids
  while first < #ARGV do
    local run = { topic = topics[tonumber(ARGV[first])], due = ARGV[first + 1], priority = ARGV[first + 2],
                  window = ARGV[first + 3] ~= '-' and ARGV[first + 3] or nil, begin = n + 1, values = {}, keys = {} }
    local width = 2
    if run.window then width = width + 1 end
    if ARGV[first + 4] ~= '' then
      width = width + 1
      run.key_at = width - 1
    end
    if ARGV[first + 5] ~= '' then
      width = width + 1
      run.links_at, new.linked = width - 1, true
    end
    if follow then width = width + 1 end
    run.width, run.first = width, first + 7
    first = run.first + width * tonumber(ARGV[first + 6])
    for i = run.first, first - 1, width do
      n = n + 1
      ids[n] = ARGV[i]
      if run.window then run.values[n - run.begin + 1] = ARGV[i + 2] end
      if run.key_at then run.keys[n - run.begin + 1] = ARGV[i + run.key_at] end
    end
    run.last, new.runs[#new.runs + 1] = n, run
    if run.topic then expect_place(run.topic, run.due, run.priority) else expect('HLEN', KEYS[#KEYS]) end
    if run.topic and run.window then expect('HLEN', run.topic.unique) end
    if run.topic and run.key_at then expect_keys() end
    if run.topic and run.links_at then
      expect('ZCARD', KEYS[14])
      expect('ZCARD', run.topic.delayed)
    end
  end
  return new
end

-- By position, whether the id of a job is known. What is stored of known jobs is read for it: but not of large ones.
local function read_known(at, ids)
  local large = redis.call('EXISTS', at.large) == 1 and ask('SMISMEMBER', at.large, ids)
  if not large then return ask('HMGET', at.jobs, ids) end
  local small = {}
  -- No job has an empty id.
  for i, id in ipairs(ids) do small[i] = large[i] == 1 and '' or id end
  local known = ask('HMGET', at.jobs, small)
  for i = 1, #ids do known[i] = known[i] or large[i] == 1 end
  return known
end

-- Stores new jobs as read_new() has read them, but for those that follow a settlement in `dropped`. announce() is left to the caller.
-- Returns for each that is not stored: its position, and 0 if its id is known, or the id of the job that holds the same unique value, or what keeps
-- it from waiting for another job: a problem, a blank, and the id of that job.
local function insert(at, new, dropped)
  local ids, refused = new.ids, {}
  if #ids == 0 then return refused end
  local known, bodies, priorities, seen, last = read_known(at, ids), {}, {}, {}, 0
  for n, id in ipairs(ids) do known[n] = known[n] or links_unfinished(id) end
  for _, run in ipairs(new.runs) do
    local topic, due, priority, i = run.topic, due_time(at, run.due), run.priority, run.first
    -- What waits for other jobs, or is on its way to another partition, goes by the stamp later.
    local stamped = (run.links_at or not topic) and math.ceil(due) or due
    local stamp, before = struct.pack('>I8', at.now) .. due_stamp(stamped, run.due), last
    local holders = topic and run.window and ask('HMGET', topic.unique, run.values)
    if run.key_at and topic and due <= exact then lines.fetch(at, topic, run.keys) end
    for n = run.begin, run.last do
      local id, value, holder = ids[n], nil, nil
      if holders then
        value = ARGV[i + 2]
        holder = holder_of(at, topic, value, holders[n - run.begin + 1])
      end
      local batch, named, about
      if run.links_at and topic and not known[n] and not seen[id] and not holder then
        batch, named, about = read_links(at, ARGV[i + run.links_at], new.follow, seen)
      end
      if dropped and dropped[tonumber(ARGV[i + run.width - 1])] then
        -- It does not appear.
      elseif not topic then
        redis.call('HSET', KEYS[#KEYS], id, stamp .. ARGV[i + 1])
      elseif known[n] or seen[id] then
        refused[#refused + 1], refused[#refused + 2] = n, 0
      elseif holder then
        count(topic.name, 'duplicate')
        refused[#refused + 1], refused[#refused + 2] = n, holder
      elseif about then
        refused[#refused + 1], refused[#refused + 2] = n, named .. ' ' .. about
      else
        local body = stamp .. ARGV[i + 1]
        seen[id], bodies[last + 1], bodies[last + 2], last = true, id, body, last + 2
        note_large(at.large, id, body)
        if value then hold(at, topic, id, value, run.window) end
        if priority ~= '' then priorities[#priorities + 1], priorities[#priorities + 2] = id, priority end
        local key = run.key_at and ARGV[i + run.key_at] or false
        if key then note_key(at, id, 0, key) end
        if named and add_links(topic, id, batch, named) then
          stand_by(topic, id)
        else
          wait(at, topic, id, due, priority == '' and 'normal' or priority, key)
        end
      end
      i = i + run.width
    end
    if topic then count(topic.name, 'pushed', (last - before) / 2) end
  end
  if new.linked then write_links() end
  many('HSET', at.jobs, bodies)
  many('HSET', at.priorities, priorities)
  if #priorities > 0 then at.special, at.prioritised = true, true end
  for _, run in ipairs(new.runs) do
    if run.topic then save_holders(at, run.topic) end
  end
  return refused
end
