-- What is wrong with members of `links`, at one moment; links.lua says what they are. Changes nothing.
--
-- KEYS  1 links  2 jobs  3 due
-- ARGV  members
-- Returns per thing that is wrong: the member; 'waiter' (the job that waits is gone), 'job' (the job that it waits for is gone), 'none' (it stands by
--         and waits for none), 'one-way' or 'left' (nothing goes on with what an end has left to be done); and the id of the job that waits
local links, jobs, due, wrong = KEYS[1], KEYS[2], KEYS[3], {}
local function note(member, what, waiter)
  wrong[#wrong + 1], wrong[#wrong + 2], wrong[#wrong + 3] = member, what, waiter
end

local function has(member) return redis.call('ZSCORE', links, member) end

local function some(before) return redis.call('ZLEXCOUNT', links, '[' .. before, '(' .. before .. '~') > 0 end

local function is_stored(id) return redis.call('HEXISTS', jobs, id) == 1 end

-- What an end has left to be done explains what is there meanwhile.
local function is_told(job) return some('e ' .. job .. ' ') and not has('e ' .. job .. ' f') end

local function is_forgotten(waiter) return has('e ' .. waiter .. ' f') end

for _, member in ipairs(ARGV) do
  local kind, id, rest = string.match(member, '^([wje]) (%S+) (.*)$')
  if has(member) and kind == 'e' then
    if not redis.call('ZSCORE', due, ENDS) then note(member, 'left', id) end
  elseif has(member) and kind == 'j' and (is_told(id) or is_forgotten(rest)) then
    -- It goes.
  elseif has(member) and kind == 'j' then
    if not has('w ' .. rest .. ' o ' .. id) and not has('w ' .. rest .. ' d ' .. id) then note(member, 'one-way', rest) end
  elseif has(member) and kind == 'w' and not is_forgotten(id) then
    local letter, job = string.match(rest, '^(.) (.*)$')
    if not is_stored(id) or not some('w ' .. id .. ' = ') then
      note(member, 'waiter', id)
    elseif letter == '=' then
      local delayed = string.match(job, '^%Z+%z%Z+%z%Z+%z%Z+%z(%Z+)')
      local score = delayed and redis.call('ZSCORE', delayed, id)
      if score and tonumber(score) >= 99999999999999 and not some('w ' .. id .. ' o ') then note(member, 'none', id) end
    elseif letter == 'o' and job ~= '' then
      if not is_stored(job) and not is_told(job) then
        note(member, 'job', id)
      elseif not has('j ' .. job .. ' ' .. id) then
        note(member, 'one-way', id)
      end
    end
  end
end
return wrong
