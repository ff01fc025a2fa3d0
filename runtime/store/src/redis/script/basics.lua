-- Put in front of every script: the little that even the plainest needs, because each call makes all functions anew that it comes to, and that is
-- dearer than a command. Builds no key name, and writes only through what its caller hands over.

-- The time in ms: rounded down, and rounded up for what must never be early. `given` is a test's clock, '' for none.
-- `exact` keeps the fraction, for delays and for the answers that say how long to wait.
local exact
local function clock(given)
  if given ~= '' then
    exact = tonumber(given)
    return exact, exact
  end
  local time = redis.call('TIME')
  local ms = time[1] * 1000 + time[2] / 1000
  exact = ms
  return math.floor(ms), math.ceil(ms)
end

-- A server whose memory is full refuses every command that may need some, unless its script has written before. Scripts
-- without which a full server could not be worked off begin with a write that changes nothing.
local function despite_full_memory(zset)
  redis.call('ZREM', zset, '')
end

-- Calls `command key ...` with any number of arguments. Lua's stack ends at 8,000: hence at most 4,000 at a time, an
-- even number so that pairs stay together.
local function many(command, key, list)
  for first = 1, #list, 4000 do
    redis.call(command, key, unpack(list, first, math.min(first + 3999, #list)))
  end
end

-- Counters are added up here and written once per script.
local tally = {}
local function count(topic, what, n)
  local name = topic .. ':' .. what
  tally[name] = (tally[name] or 0) + (n or 1)
end
local function save_counts(key)
  for name, n in pairs(tally) do
    if n ~= 0 then redis.call('HINCRBY', key, name, n) end
  end
end
