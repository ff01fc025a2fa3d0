-- Put in front of list_line, list_sorted and list_running: what a page tells of a job.
--
-- KEYS  1 jobs  2 claims  3 failures
-- ARGV  1 how many jobs at most  2 how many bytes of them at most, unless the first is larger
local most, room = tonumber(ARGV[1]), tonumber(ARGV[2])
-- Per job: id, stamp and envelope, claim or '', failure or '', then what the script adds.
local found, told = {}, 0

-- Tells of a job, if there is one with this id (others may write anything into Lists and ZSETs). False: the page is full.
local function tell(id, ...)
  local size = redis.call('HSTRLEN', KEYS[1], id)
  if size == 0 then return true end
  size = size + redis.call('HSTRLEN', KEYS[3], id)
  if told == most or told > 0 and size > room then return false end
  told, room = told + 1, room - size
  for _, value in ipairs({ id, redis.call('HGET', KEYS[1], id), redis.call('HGET', KEYS[2], id) or '',
                           redis.call('HGET', KEYS[3], id) or '', ... }) do
    found[#found + 1] = value
  end
  return true
end
