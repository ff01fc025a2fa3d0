-- Put in front of the scripts that know who holds the slots of a key and who waits for one. Both are in one value, so that the end of a job reads and
-- writes one field of `slots` for its key: `topic key` → the ids of the holders. If jobs wait, three more lines follow: `first last`, the ids at the head
-- of the line, and those at its tail. What is between them stands in segments, the fields ` topic key n` with n above `first` and up to `last`; one of which all jobs
-- were taken out is not there. The head counts as segment `first`, the tail as `last + 1`.
local lines = {}

-- Looks for the line breaks alone: a pattern would go through the ids byte by byte, which takes longer than all else here.
function lines.read(field, stored)
  local text = stored or ''
  local line = { field = field, holders = {}, first = 1, last = 1, head = '', tail = '' }
  local holders, first, last = string.match(text, '^([^\n]*)\n(%d+) (%d+)\n')
  local head = first and #holders + #first + #last + 4
  local tail = head and string.find(text, '\n', head, true)
  if tail then
    line.first, line.last = tonumber(first), tonumber(last)
    line.head, line.tail = string.sub(text, head, tail - 1), string.sub(text, tail + 1)
  end
  for id in string.gmatch(tail and holders or text, '%S+') do line.holders[#line.holders + 1] = id end
  return line
end

function lines.field_of(line, n)
  return ' ' .. line.field .. ' ' .. string.format('%.0f', n)
end

-- The ids of a segment, with a blank between them.
function lines.segment(slots, line, n)
  if n <= line.first then return line.head end
  if n > line.last then return line.tail end
  return redis.call('HGET', slots, lines.field_of(line, n)) or ''
end

function lines.holds(line, id)
  for _, holder in ipairs(line.holders) do
    if holder == id then return true end
  end
  return false
end
