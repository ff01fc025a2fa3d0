-- Goes on with the work that scripts deferred when jobs ended for which others wait, or that have waited for others: see carry_ends of
-- links.lua. One call passes a job's end on to all that wait for it, so none gets it twice.
--
-- KEYS  1 to 14: see waiting
-- ARGV  1 now, ms ('': the server's clock)  2 wake channel
-- Returns { how many links were passed on or forgotten, and jobs were done with }
local now, up = clock(ARGV[1])
local at = partition(now, up, ARGV[2])

local ended_jobs, letters, gone, done = {}, {}, {}, {}
for _, entry in ipairs(members('ZRANGEBYLEX', 'e ', 'LIMIT', 0, STEP_LINKS)) do
  local job, letter = string.match(entry, '^e (%S+) (.)$')
  if letter == 'f' then
    gone[#gone + 1] = job
  else
    if not take_room(job and members('ZLEXCOUNT', 'j ' .. job .. ' ') or 0) then break end
    -- A member that cannot be read also goes.
    done[#done + 1] = entry
    if job then ended_jobs[#ended_jobs + 1], letters[job] = job, letter end
  end
end
expect_waiters(ended_jobs, #ended_jobs)
despite_full_memory(at.due)
pass_on(at, ended_jobs, letters)
for _, waiter in ipairs(gone) do
  if room <= 0 then break end
  if forget_some(waiter, room) then done[#done + 1] = 'e ' .. waiter .. ' f' end
end
many('ZREM', links, done)
if members('ZLEXCOUNT', 'e ') == 0 then redis.call('ZREM', at.due, ENDS) else redis.call('ZADD', at.due, now, ENDS) end
return { STEP_LINKS - room }
