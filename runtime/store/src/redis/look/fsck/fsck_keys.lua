-- What is wrong with the slots of keys and those that wait for one, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 keyed  3 slots  4 behind
-- ARGV  per thing, 5: 'slot' and its field in `slots`, key, '', ''; or 'waiter', the member of `behind`, key, place, and id of the job; the field of
--         `slots` follows as a sixth
-- Returns per thing that is wrong: its member or field, 'holder', 'waiter' or 'slots', and the id of the job
local wrong = {}
local function note(thing, what, id)
  wrong[#wrong + 1], wrong[#wrong + 2], wrong[#wrong + 3] = thing, what, id
end

-- Whether a job is stored whose key is this one, at this place.
local function is_keyed(id, key, place)
  return redis.call('HEXISTS', KEYS[1], id) == 1 and redis.call('HGET', KEYS[2], id) == place .. ' ' .. key
end

for i = 1, #ARGV, 6 do
  local what, thing, key, place, id, field = unpack(ARGV, i, i + 5)
  if what == 'slot' then
    for holder in string.gmatch(redis.call('HGET', KEYS[3], thing) or '', '%S+') do
      if not is_keyed(holder, key, '0') and not is_keyed(holder, key, '00') then note(thing, 'holder', holder) end
    end
  elseif redis.call('ZSCORE', KEYS[4], thing) then
    if not is_keyed(id, key, place) then note(thing, 'waiter', id) end
    if (redis.call('HGET', KEYS[3], field) or '') == '' then note(thing, 'slots', id) end
  end
end
return wrong
