-- A page of a ZSET of delayed or dead jobs. Changes nothing.
--
-- KEYS  1 to 3: see list; 4 the ZSET
-- ARGV  1 and 2: see list; 3 'up' or 'down'  4 score and  5 id of the last job of the page before, '' if there was none
-- Returns { 1 if there are others behind it or else 0, { per job, 6: see list, then its score, and that in whole ms } }
local place, up = KEYS[4], ARGV[3] == 'up'
local STEP, STEPS = 500, 4

-- As a ZSET compares its members, and not as the server's language would.
local function is_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- How many members are less than the job, and 1 if it is still there itself.
local function rank(score, id)
  local low = redis.call('ZCOUNT', place, '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', place, score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(redis.call('ZRANGE', place, middle, middle)[1], id) then low = middle + 1 else high = middle end
  end
  return low, redis.call('ZRANGE', place, low, low)[1] == id and 1 or 0
end

local length, at = redis.call('ZCARD', place), 0
if ARGV[4] ~= '' then
  local less, itself = rank(ARGV[4], ARGV[5])
  at = up and less + itself or length - less
end
local function whole_ms(score)
  return string.format('%.0f', math.min(math.max(math.ceil(tonumber(score)), 0), 99999999999999))
end
for _ = 1, STEPS do
  if at >= length or listed == most then break end
  local members, full = redis.call(up and 'ZRANGE' or 'ZREVRANGE', place, at, at + STEP - 1, 'WITHSCORES'), false
  for i = 1, #members, 2 do
    full = not list(members[i], members[i + 1], whole_ms(members[i + 1]))
    if full then break end
    at = at + 1
  end
  if full then break end
end
return { at < length and 1 or 0, found }
