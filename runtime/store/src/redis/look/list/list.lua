-- Put in front of list_line, list_behind, list_sorted and list_running: what a page says about a job.
--
-- KEYS  1 jobs  2 claims  3 failures
-- ARGV  1 how many jobs at most  2 how many bytes of them at most, unless the first is larger
local most, left = tonumber(ARGV[1]), tonumber(ARGV[2])
-- Per job: id, stamp and envelope, claim or '', failure or '', then what the script adds.
local found, listed = {}, 0

-- Adds a job to the page, if there is one with this id (raw producers may write anything into Lists and ZSETs). Returns false if
-- the page is full.
local function list(id, ...)
  local size = redis.call('HSTRLEN', KEYS[1], id)
  if size == 0 then return true end
  size = size + redis.call('HSTRLEN', KEYS[3], id)
  if listed == most or listed > 0 and size > left then return false end
  listed, left = listed + 1, left - size
  for _, value in ipairs({ id, redis.call('HGET', KEYS[1], id), redis.call('HGET', KEYS[2], id) or '',
                           redis.call('HGET', KEYS[3], id) or '', ... }) do
    found[#found + 1] = value
  end
  return true
end
