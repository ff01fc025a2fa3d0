-- What a job waits for, or has waited for. Changes nothing.
--
-- KEYS  1 links
-- ARGV  1 id  2 how many of each kind to list at most
-- Returns nothing if it waits for none, or else { 1 if it is an open batch or 0, then for each of the letters o d e u x c: how many jobs it has,
--         then how many are listed, and their ids }. See links for the letters.
local LETTERS = { 'o', 'd', 'e', 'u', 'x', 'c' }
local function between(letter)
  local before = 'w ' .. ARGV[1] .. ' ' .. letter .. ' '
  return '(' .. before, '(' .. before .. '~', #before
end

local first, last = between('=')
if redis.call('ZLEXCOUNT', KEYS[1], first, last) == 0 then return {} end
local found = { redis.call('ZSCORE', KEYS[1], 'w ' .. ARGV[1] .. ' o ') and 1 or 0 }
for _, letter in ipairs(LETTERS) do
  local from, to, before = between(letter)
  local listed = redis.call('ZRANGEBYLEX', KEYS[1], from, to, 'LIMIT', 0, ARGV[2])
  found[#found + 1] = redis.call('ZLEXCOUNT', KEYS[1], from, to)
  found[#found + 1] = #listed
  for _, member in ipairs(listed) do found[#found + 1] = string.sub(member, before + 1) end
end
return found
