-- Finds a job among those that ended last. Changes nothing.
--
-- KEYS  an ended key per topic
-- ARGV  1 now, ms ('': the server's clock)  2 id
-- Returns { now, then for each topic that has the job: its index, counted from 1, and what is remembered of the job's latest end }
local wanted, found = ' ' .. ARGV[2] .. ' ', { (clock(ARGV[1])) }
for t, key in ipairs(KEYS) do
  local text = redis.call('GET', key) or ''
  local at, next_at = nil, string.find(text, wanted, 1, true)
  while next_at do
    at, next_at = next_at, string.find(text, wanted, next_at + 1, true)
  end
  if at then
    found[#found + 1], found[#found + 2] = t, string.match(text, '|([^\n]*)\n', at)
  end
end
return found
