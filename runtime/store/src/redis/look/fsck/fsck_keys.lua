-- What is wrong with the slots of keys and those that wait for one, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 keyed  3 slots  4 behind
-- ARGV  per thing, 4: what it is, 'line' a field of `slots` for a key, 'segment' one for a part of its line, 'index' a member of `behind`; its field or
--         member; the field of its line; its key
-- Returns per thing that is wrong: its field or member, 'holder', 'waiter', 'slots' or 'index', and the id of the job or ''
local wrong = {}
local function note(thing, what, id)
  wrong[#wrong + 1], wrong[#wrong + 2], wrong[#wrong + 3] = thing, what, id
end

-- What is noted of the key of a job: if it is stored, and its key is this one, its segment.
local function place_of(id, key)
  local place, noted = string.match(redis.call('HGET', KEYS[2], id) or '', '^(%d+) (.*)$')
  return noted == key and redis.call('HEXISTS', KEYS[1], id) == 1 and tonumber(place)
end

local function check_waiters(thing, line, key, place)
  for id in string.gmatch(lines.segment(KEYS[3], line, place), '%S+') do
    if place_of(id, key) ~= place then note(thing, 'waiter', id) end
    if #line.holders == 0 then note(thing, 'slots', id) end
  end
end

for i = 1, #ARGV, 4 do
  local what, thing, field, key = unpack(ARGV, i, i + 3)
  local line = lines.read(field, redis.call('HGET', KEYS[3], field))
  if what == 'line' then
    for _, holder in ipairs(line.holders) do
      if not place_of(holder, key) then note(thing, 'holder', holder) end
    end
    check_waiters(thing, line, key, line.first)
    check_waiters(thing, line, key, line.last + 1)
    if line.head ~= '' and not redis.call('ZSCORE', KEYS[4], field) then note(thing, 'index', '') end
  elseif what == 'index' then
    if line.head == '' then note(thing, 'index', '') end
  else
    local place = tonumber(string.match(thing, '%d+$'))
    if place > line.first and place <= line.last then
      check_waiters(thing, line, key, place)
    else
      for id in string.gmatch(redis.call('HGET', KEYS[3], thing) or '', '%S+') do note(thing, 'waiter', id) end
    end
  end
end
return wrong
