-- Put in front of push and of all that it builds upon, whose KEYS and ARGV it reads: jobs that are ready at once, and of which nothing else is known.
-- Most are, and then pay for no function and no question that only others need.

-- Returns what push returns. Nil, and nothing has changed, if push has to look closer: at a time, a priority, a unique value, a key, links or an
-- outbox; at ids that are known or here twice, at large jobs, and at any where some jobs wait for others.
local function push_plain()
  local n_topics, ids, of_topic, seen = tonumber(ARGV[4]), {}, {}, {}
  local reused = tonumber(ARGV[5 + n_topics])
  local first = 6 + n_topics + reused
  while first < #ARGV do
    local topic, due, priority, window, keyed, linked, jobs = unpack(ARGV, first, first + 6)
    if topic == '0' or due ~= '' or priority ~= '' or window ~= '-' or keyed ~= '' or linked ~= '' then return nil end
    local theirs = of_topic[tonumber(topic)] or {}
    of_topic[tonumber(topic)] = theirs
    for i = first + 7, first + 5 + 2 * jobs, 2 do
      local id = ARGV[i]
      if seen[id] or #ARGV[i + 1] > 4080 then return nil end
      ids[#ids + 1], theirs[#theirs + 1], seen[id] = id, id, i
    end
    first = first + 7 + 2 * jobs
  end
  if #ids == 0 or redis.call('EXISTS', KEYS[9], KEYS[14]) > 0 then return nil end
  for _, stored in ipairs(redis.call('HMGET', KEYS[1], unpack(ids))) do
    if stored then return nil end
  end
  -- If another program has made something else of it, the script ends here: before its first write.
  for t in pairs(of_topic) do redis.call('LLEN', KEYS[8 + 8 * t]) end

  local now = clock(ARGV[1])
  local at = { now = now, wake = ARGV[2], jobs = KEYS[1], active = KEYS[3], topics = KEYS[5], paused = KEYS[7] }
  local stamp, bodies = struct.pack('>I8I8', now, now), {}
  for n, id in ipairs(ids) do bodies[2 * n - 1], bodies[2 * n] = id, stamp .. ARGV[seen[id] + 1] end
  many('HSET', KEYS[1], bodies)
  for t = 1, n_topics do
    if of_topic[t] then
      local topic = { name = ARGV[4 + t], waiters = KEYS[14 + 8 * t], is_claimed = ARGV[3] == 'claimed' }
      many('LPUSH', KEYS[8 + 8 * t], of_topic[t])
      wake(at, topic)
      count(topic.name, 'pushed', #of_topic[t])
    end
  end
  if reused > 0 then redis.call('DEL', unpack(KEYS, #KEYS + 1 - reused)) end
  save_counts(KEYS[6])
  return {}
end

local plain_reply = push_plain()
if plain_reply then return plain_reply end
