-- A page of a ready List, from the end that is claimed from. Changes nothing.
--
-- KEYS  1 to 3: see list; 4 the List
-- ARGV  1 and 2: see list; 3 how many elements stood in line up to the end of the page before, 0 if there was none,
--       then its last jobs, the last one first: id, deliveries, beginning of the stamp; none if it had none
-- Returns { how many elements stand in line up to the end of this page, 1 if there are others behind it or else 0,
--           { per job, 4: see list } }
local line, length = KEYS[4], redis.call('LLEN', KEYS[4])
-- How many elements a page looks at at once, and how often; it looks for its beginning a little longer.
local STEP, STEPS, STEPS_BACK = 500, 4, 20

-- Elements leave a List anywhere and join it at its tail: the jobs of the page before stand where they stood, or further
-- in front. This page begins behind the last of them that is still there. If none is, what stood in front of them has
-- mostly also been claimed, and it begins at the front.
local function begin(before)
  -- The page before was nothing but elements that are no jobs: there is nothing better to go by than their number.
  if #ARGV == 3 then return math.min(before, length) end
  local still = {}
  for i = 4, #ARGV, 3 do
    local deliveries, _, worker = parse_claim(redis.call('HGET', KEYS[2], ARGV[i]))
    local body = redis.call('HGET', KEYS[1], ARGV[i])
    -- What is too short for a stamp counts as enqueued at the epoch.
    local stamp = body and (#body < 16 and string.rep('\0', 8) or string.sub(body, 1, 8))
    -- One that was claimed or pushed meanwhile has joined anew.
    local stayed = worker == '' and deliveries == tonumber(ARGV[i + 1]) and stamp == ARGV[i + 2]
    if stayed then still[ARGV[i]] = true end
  end
  if not next(still) then return 0 end
  local last = math.min(before, length)
  for _ = 1, STEPS_BACK do
    if last == 0 then return 0 end
    local first = math.max(last - STEP, 0)
    for i, id in ipairs(redis.call('LRANGE', line, -last, -first - 1)) do
      if still[id] then return last - i + 1 end
    end
    last = first
  end
  return 0
end

local at = begin(tonumber(ARGV[3]))
for _ = 1, STEPS do
  if at >= length or listed == most then break end
  local ids, full = redis.call('LRANGE', line, -math.min(at + STEP, length), -at - 1), false
  for i = #ids, 1, -1 do
    local _, _, worker = parse_claim(redis.call('HGET', KEYS[2], ids[i]))
    full = worker == '' and not list(ids[i])
    if full then break end
    at = at + 1
  end
  if full then break end
end
return { at, at < length and 1 or 0, found }
