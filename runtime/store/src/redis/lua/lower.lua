-- Put in front of the scripts that move what waits because the server's clock was set back: set_clock and set_topics_clock.

-- What lies at a time that never comes, or later, is no time.
local NEVER = 99999999999999

-- Whether a step is to be taken here, of which `clock` has what was taken before. Writes down that it is.
local function is_new_step(clock, of, step)
  if tonumber(redis.call('HGET', clock, of) or 0) >= step then return false end
  redis.call('HSET', clock, of, step)
  return true
end

-- Moves the scores of a ZSET that are times: by so much, but for one member. `factor`: how many parts of them a millisecond has.
local function lower(key, back, factor, but)
  local found, lowered = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    local at = tonumber(found[i + 1])
    if at > 0 and at < NEVER * factor and found[i] ~= but then
      lowered[#lowered + 1], lowered[#lowered + 2] = math.max(at - back * factor, 1), found[i]
    end
  end
  many('ZADD', key, lowered)
end
