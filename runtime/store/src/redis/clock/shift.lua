-- Put in front of the scripts that move what waits because the server's clock was set: set_clock and set_topics_clock.

-- What lies at a time that never comes, or later, is no time.
local NEVER = 99999999999999

-- A runner notices a step up to this many ms after it was made. What is made meanwhile goes by the new clock already.
local NOTICED_WITHIN = 5000

-- Whether a step is to be taken here: `clock` has what was taken before. Writes down that it is.
local function is_new_step(clock, of, step)
  if tonumber(redis.call('HGET', clock, of) or 0) >= step then return false end
  redis.call('HSET', clock, of, step)
  return true
end

-- Moves the scores of a ZSET that are times: each by as many ms as `by` says of it and its member, nil: by none. `factor`: how many parts of
-- them a millisecond has.
local function shift(key, factor, by)
  local found, moved = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    local at = tonumber(found[i + 1])
    local ms = at > 0 and at < NEVER * factor and by(at, found[i])
    if ms and ms ~= 0 then
      moved[#moved + 1], moved[#moved + 2] = math.max(at + ms * factor, 1), found[i]
    end
  end
  many('ZADD', key, moved)
end
