-- Put, after waiting, in front of the scripts that know of jobs that wait for other jobs: push, schedule, settle, cancel, respawn, seal, sweep,
-- delete_dead, remove_exported, carry. `links` is a ZSET with members of score 0, so in the order of their bytes. A blank is between their
-- words, and in no id:
--
--   w waiter = topic\0keys   a job that waits for others or has waited: its topic, and the names of the keys where it is to be put: its
--                            ready Lists of high, normal and low priority, its delayed ZSET, its waiters
--   w waiter o job           it waits for that job. Without one: it is a batch that is not sealed
--   w waiter L job           that job has ended: L is c complete, d dead, e expired, x cancelled, u unknown
--   j job waiter             the same, to be found when the job ends; also of a dead job, which may be respawned
--   e job L                  that job has ended, and its end is still to be passed on: see carry_ends. L as above, or D: it was
--                            dead and is gone. Or f: it is gone, and what it waited for is still to be forgotten
--
-- A job that waits for others stands among the delayed ones of its topic, at a time that never comes.
--
-- KEYS  1 to 14: see waiting; what read_links() names, where its caller says
local links = KEYS[14]

-- How many jobs may wait for one, and for how many one may wait.
local WAITERS, MEMBERS = 1000, 10000

-- How many links one script passes on or forgets, but for those of a single job: less than ten milliseconds. The others follow: see carry_ends.
local STEP_LINKS = 500
local room = STEP_LINKS
local function take_room(n)
  if n > room and room < STEP_LINKS then return false end
  room = room - math.max(n, 1)
  return true
end

local ENDED = { complete = 'c', dead = 'd', expired = 'e', cancelled = 'x' }

-- Whether any job waits for another. Where none does, one question per script is all it costs.
local links_exist
local function some_links()
  if links_exist == nil then links_exist = redis.call('EXISTS', links) == 1 end
  return links_exist
end

local function members(command, before, ...)
  return redis.call(command, links, '[' .. before, '(' .. before .. '~', ...)
end

-- Whether some links of jobs that have ended are still to be passed on or forgotten; of a single job, which is not pushed again meanwhile.
local some_unfinished
local function links_unfinished(job)
  if some_unfinished == nil then some_unfinished = some_links() and members('ZLEXCOUNT', 'e ') > 0 end
  return some_unfinished and (not job or members('ZLEXCOUNT', 'e ' .. job .. ' ') > 0)
end

-- How many jobs a job waits for.
local function open_links(waiter)
  return members('ZLEXCOUNT', 'w ' .. waiter .. ' o ')
end

local function waits_for_some(waiter)
  return open_links(waiter) > 0
end

-- The ids of the jobs that wait for a job, or did when it died. Those that were read once are known.
local known_waiters = {}
local function waiters_of(job)
  if known_waiters[job] then return known_waiters[job] end
  local before = 'j ' .. job .. ' '
  local found = members('ZRANGEBYLEX', before)
  for i, member in ipairs(found) do found[i] = string.sub(member, #before + 1) end
  known_waiters[job] = found
  return found
end

-- The topic of a job that waits for others, as topic_row() has it; nil if it waits for none. Those of one topic share it.
local linked_topics, topic_of_waiter = {}, {}
local function linked_topic(waiter)
  if topic_of_waiter[waiter] == nil then
    local record = members('ZRANGEBYLEX', 'w ' .. waiter .. ' = ', 'LIMIT', 0, 1)[1]
    if not record then
      topic_of_waiter[waiter] = false
      return nil
    end
    local words = {}
    for word in string.gmatch(string.sub(record, #waiter + 6), '%Z+') do words[#words + 1] = word end
    local name, high, normal, low, delayed, waiters = unpack(words)
    if not linked_topics[name] then
      linked_topics[name] = { name = name, ready = { high = high, normal = normal, low = low }, delayed = delayed,
                              waiters = waiters, arrived = {}, later = {} }
    end
    topic_of_waiter[waiter] = linked_topics[name]
  end
  return topic_of_waiter[waiter] or nil
end

local function stands_by(topic, waiter)
  return tonumber(redis.call('ZSCORE', topic.delayed, waiter) or 0) >= NEVER
end

-- The jobs whose ends this script notes, and how each ended: false of one that was dead before.
local noted_ends, end_of = {}, {}
local function note_end(job, ended)
  noted_ends[#noted_ends + 1], end_of[job] = job, ended or false
end

-- Those that are gone, whose links are to be forgotten; and the ids that jobs of this script get, of which nothing may be left.
local forgotten, reused = {}, {}

-- Reads where the jobs are put that may start because these jobs end, and others, up to STEP_LINKS: see expect. Returns whether some wait for
-- these. Those whose ends one script does not pass on are not looked at.
local looked_at, seen_waiters = 0, {}
local function expect_waiters(jobs, ends)
  local some = false
  for _, job in ipairs(some_links() and jobs or {}) do
    if looked_at >= STEP_LINKS then
      some = true
      break
    end
    for _, waiter in ipairs(waiters_of(job)) do
      some, looked_at = true, looked_at + 1
      -- One that waits for more than end here does not start.
      local topic = not seen_waiters[waiter] and open_links(waiter) <= ends and linked_topic(waiter)
      seen_waiters[waiter] = true
      if topic and not topic.expected then
        expect_place(topic, 'delayed')
        topic.expected = true
      end
    end
  end
  if some then expect_keys() end
  return some
end

-- Lets a job start that stands by and waits for no other any more: when it is due, or now. It counts as due from then on.
local function release(at, waiter)
  if waits_for_some(waiter) then return end
  local topic = linked_topic(waiter)
  if not topic or not stands_by(topic, waiter) then return end
  local body = redis.call('HGET', at.jobs, waiter)
  if not body then return end
  redis.call('ZREM', topic.delayed, waiter)
  local due = stamped_due(body)
  if due < at.now then
    due = at.now
    redis.call('HSET', at.jobs, waiter, string.sub(body, 1, 8) .. struct.pack('>I8', due) .. string.sub(body, 17))
  end
  wait(at, topic, waiter, due)
end

local function announce_linked(at)
  for _, topic in pairs(linked_topics) do announce(at, topic) end
end

-- Passes the ends of these jobs on to those that wait for them, and lets them start.
local function pass_on(at, jobs, letters)
  local touched, passed, added = {}, {}, {}
  for _, job in ipairs(jobs) do
    local letter = letters[job]
    for _, waiter in ipairs(waiters_of(job)) do
      local open = 'w ' .. waiter .. ' o ' .. job
      -- Most know already that a dead job is one, before it is gone. What is noted of a job that is gone is forgotten after this.
      if not (letter == 'D' or reused[waiter]) or redis.call('ZSCORE', links, open) then
        passed[#passed + 1] = open
        added[#added + 1], added[#added + 2] = 0, 'w ' .. waiter .. ' ' .. string.lower(letter) .. ' ' .. job
        if not touched[waiter] then
          touched[waiter], touched[#touched + 1] = true, waiter
        end
      end
      if letter ~= 'd' then passed[#passed + 1] = 'j ' .. job .. ' ' .. waiter end
    end
    known_waiters[job] = nil
  end
  many('ZREM', links, passed)
  many('ZADD', links, added)
  for _, waiter in ipairs(touched) do release(at, waiter) end
  announce_linked(at)
end

-- Forgets at most `most` links of a job that is gone. Returns whether none is left.
local function forget_some(waiter, most)
  local before = 'w ' .. waiter .. ' '
  local gone = members('ZRANGEBYLEX', before, 'LIMIT', 0, most)
  local n = #gone
  for i = 1, n do
    local letter, job = string.match(gone[i], '^(.) (.+)$', #before + 1)
    if letter == 'o' or letter == 'd' then gone[#gone + 1] = 'j ' .. job .. ' ' .. waiter end
  end
  many('ZREM', links, gone)
  room = room - math.max(n, 1)
  return n < most
end

-- Passes the ends of the noted jobs on to those that wait for them, and forgets what jobs that are gone have waited for. Comes after
-- follow-up jobs were put in their places: these may also wait for them. One script does a bounded part; what remains stays noted as
-- members `e`, and the runner that migrates goes on with it at once, call by call: see carry.lua.
local function carry_ends(at)
  if not some_links() then return end
  local now_ended, letters, unfinished = {}, {}, {}
  local function leave_for_later(job, letter)
    unfinished[#unfinished + 1], unfinished[#unfinished + 2] = 0, 'e ' .. job .. ' ' .. letter
  end
  for _, job in ipairs(noted_ends) do
    local letter = end_of[job] or 'D'
    local n = known_waiters[job] and #known_waiters[job] or members('ZLEXCOUNT', 'j ' .. job .. ' ')
    if letter == 'D' and links_unfinished(job) then redis.call('ZREM', links, 'e ' .. job .. ' d') end
    if n == 0 then
      -- No job waits for it.
    elseif reused[job] or take_room(n) then
      now_ended[#now_ended + 1], letters[job] = job, letter
    else
      leave_for_later(job, letter)
    end
  end
  pass_on(at, now_ended, letters)
  for _, waiter in ipairs(forgotten) do
    if not forget_some(waiter, math.max(room, 0)) then leave_for_later(waiter, 'f') end
  end
  if #unfinished == 0 then return end
  many('ZADD', links, unfinished)
  if redis.call('ZADD', at.due, 'NX', at.now, ENDS) == 1 then
    publish(at.wake, 'due 0')
    publish(all_runners(at.wake), 'due ' .. tenant_of(at.due) .. ' 0')
  end
end

-- A dead job is to run again: those that still wait count it anew.
local function reopen(job)
  if not some_links() then return end
  if links_unfinished(job) then redis.call('ZREM', links, 'e ' .. job .. ' d') end
  local waiters = waiters_of(job)
  for _, waiter in ipairs(waiters) do
    if redis.call('ZREM', links, 'w ' .. waiter .. ' d ' .. job) == 1 then
      redis.call('ZADD', links, 0, 'w ' .. waiter .. ' o ' .. job)
    end
  end
  room = room - #waiters
end

-- A job is removed: it waits for none any more. Its links follow: see carry_ends.
local function forget_links(waiter)
  if not linked_topic(waiter) then return end
  members('ZREMRANGEBYLEX', 'w ' .. waiter .. ' = ')
  topic_of_waiter[waiter] = false
  if reused[waiter] then forget_some(waiter, 2 * MEMBERS) else forgotten[#forgotten + 1] = waiter end
end

-- New links that are not written yet, for many in one command.
local unwritten = {}
local function write_links()
  many('ZADD', links, unwritten)
  unwritten = {}
end

-- Why a new job cannot be a member of a batch, or nil. What is known of a batch holds for all members of a call.
local batches = {}
local function no_batch(at, batch, follows, is_new)
  local known = batches[batch]
  if not known then
    known = { members = 0 }
    local topic = linked_topic(batch)
    if topic and stands_by(topic, batch) then
      known.is_open = redis.call('ZSCORE', links, 'w ' .. batch .. ' o ')
      known.members = members('ZLEXCOUNT', 'w ' .. batch .. ' ') - (known.is_open and 2 or 1)
    else
      known.problem = (is_new[batch] or redis.call('HEXISTS', at.jobs, batch) == 1) and 'not-open' or 'unknown'
    end
    batches[batch] = known
  end
  if known.problem then return known.problem end
  if not known.is_open and not follows then return 'not-open' end
  return known.members >= MEMBERS and 'full' or nil
end

-- What a new job waits for, as its producer asks: `words` are 'o' if it is a batch or '-'; its batch or '-'; then for each job that it names:
-- the id, which of KEYS is the dead ZSET of that job's topic (0: it was not stored), which its result.
-- Returns the batch, and a table of { job, letter }. Or nil, a problem, and the job that it is about. A job that follows a settlement
-- cannot be refused: what it cannot wait for is unknown instead.
local function read_links(at, words, follows, is_new)
  local take = string.gmatch(words, '%S+')
  local is_open, batch, named, seen = take() == 'o', take(), {}, {}
  if batch == '-' then batch = nil end
  local problem
  if batch then
    problem = no_batch(at, batch, follows, is_new)
    if problem and not follows then return nil, problem, batch end
    if problem then batch = nil end
  end
  for job in take do
    write_links()
    local dead, result, letter = tonumber(take()), tonumber(take()), 'o'
    problem = nil
    if not is_new[job] and end_of[job] == nil then
      if redis.call('HEXISTS', at.jobs, job) == 0 then
        local kept = redis.call('GET', KEYS[result])
        letter = kept and ENDED[string.match(kept, '\163end\129?[\164-\169](%l+)')]
        if not letter then problem = 'unknown' end
      elseif dead > 0 and redis.call('ZSCORE', KEYS[dead], job) then
        letter = 'd'
      end
    end
    if letter == 'o' or letter == 'd' then
      if members('ZLEXCOUNT', 'j ' .. job .. ' ') >= WAITERS then problem = 'crowded' end
      if letter == 'o' and batch and waits_for_some(job) and not redis.call('ZSCORE', links, 'w ' .. batch .. ' o ' .. job) then
        problem = 'tangled'
      end
    end
    if problem and not follows then return nil, problem, job end
    if not seen[job] then
      seen[job], named[#named + 1] = true, { job, problem and 'u' or letter }
    end
  end
  if is_open then named[#named + 1] = { '', 'o' } end
  return batch, named
end

-- Notes what a new job waits for, as read_links() has it. Returns whether it has to.
local function add_links(topic, id, batch, named)
  local stands = false
  local function add(member)
    unwritten[#unwritten + 1], unwritten[#unwritten + 2] = 0, member
  end
  if batch then
    batches[batch].members = batches[batch].members + 1
    add('w ' .. batch .. ' o ' .. id)
    add('j ' .. id .. ' ' .. batch)
  end
  for _, link in ipairs(named) do
    local job, letter = unpack(link)
    stands = stands or letter == 'o'
    add('w ' .. id .. ' ' .. letter .. ' ' .. job)
    if job ~= '' and (letter == 'o' or letter == 'd') then
      add('j ' .. job .. ' ' .. id)
      known_waiters[job] = nil
    end
  end
  if #named > 0 then
    local ready = topic.ready
    add('w ' .. id .. ' = ' .. table.concat({ topic.name, ready.high, ready.normal, ready.low, topic.delayed, topic.waiters }, '\0'))
    topic_of_waiter[id] = nil
    local is_open = named[#named][1] == ''
    batches[id] = stands and { is_open = is_open, members = #named - (is_open and 1 or 0) } or nil
  end
  links_exist = true
  return stands
end
