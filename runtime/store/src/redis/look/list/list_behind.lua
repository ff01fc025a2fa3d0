-- A page of the jobs that wait for others of their key. Changes nothing.
--
-- KEYS  1 to 3: see list; 4 behind
-- ARGV  1 and 2: see list; 3 and 4 between which bounds the members are
-- Returns { 1 if there are others behind it or else 0, { per job, 6: see list, then its key and its place } }
local STEP, STEPS = 500, 4
local from = ARGV[3]
for _ = 1, STEPS do
  local members = redis.call('ZRANGEBYLEX', KEYS[4], from, ARGV[4], 'LIMIT', 0, STEP)
  for _, member in ipairs(members) do
    local key, place, id = string.match(member, '^%S+ %d+:(.*) (%d+) (%S+)$')
    if not list(id, key, place) then return { 1, found } end
    from = '(' .. member
  end
  if #members < STEP then return { 0, found } end
end
return { 1, found }
