-- A page of the jobs that wait for others of their key. Changes nothing.
--
-- KEYS  1 to 3: see list; 4 behind  5 slots
-- ARGV  1 and 2: see list; 3 topic  4 key that the page before ended with ('': it begins), and which of its segments  6 the job there
-- Returns { 1 if there are others behind it or else 0, { per job, 6: see list, then its key and its segment } }
local before, last_key, last_place, last_job = ARGV[3] .. ' ', ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- The jobs of a segment but for those that were listed: all of them, if the last of these has left it.
local function unlisted(ids, key, place)
  if key == last_key and place == last_place then
    local _, last = string.find(' ' .. ids .. ' ', ' ' .. last_job .. ' ', 1, true)
    return string.sub(ids, last or 1)
  end
  return ids
end

-- False if the page is full.
local function list_line(field)
  local line, key = lines.read(field, redis.call('HGET', KEYS[5], field)), string.sub(field, #before + 1)
  for place = math.max(line.first, key == last_key and last_place or 0), line.last + 1 do
    for id in string.gmatch(unlisted(lines.segment(KEYS[5], line, place), key, place), '%S+') do
      if not list(id, key, place) then return false end
    end
  end
  return true
end

local STEP, from = 500, '[' .. before .. last_key
while true do
  -- No topic has the sign that follows a blank.
  local fields = redis.call('ZRANGEBYLEX', KEYS[4], from, '(' .. ARGV[3] .. '!', 'LIMIT', 0, STEP)
  for _, field in ipairs(fields) do
    if not list_line(field) then return { 1, found } end
    from = '(' .. field
  end
  if #fields < STEP then return { 0, found } end
end
