-- Which of these ids are still in a key, and stand for no job that is stored, or for none that runs. Changes nothing.
--
-- KEYS  1 jobs  2 claims  3 the key
-- ARGV  1 the key's type (hash set zset list), '' if it need not be looked into  2 'running' if the jobs have to run, '' if they have to be stored
--       then the ids
-- Returns these ids
local LOOK = { hash = 'HEXISTS', set = 'SISMEMBER', zset = 'ZSCORE', list = 'LPOS' }

local function is_in(id)
  local found = ARGV[1] == '' or redis.call(LOOK[ARGV[1]], KEYS[3], id)
  return found and found ~= 0 or found == 0 and ARGV[1] == 'list'
end

local function is_right(id)
  -- A killed job is in `cancelled` twice.
  if ARGV[2] == 'running' then id = id:match('^(.*)!$') or id end
  if redis.call('HEXISTS', KEYS[1], id) == 0 then return false end
  local _, _, holder = parse_claim(redis.call('HGET', KEYS[2], id))
  return ARGV[2] ~= 'running' or (holder or '') ~= ''
end

local wrong = {}
for i = 3, #ARGV do
  if not is_right(ARGV[i]) and is_in(ARGV[i]) then wrong[#wrong + 1] = ARGV[i] end
end
return wrong
