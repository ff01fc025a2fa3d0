-- What is wrong with unique values of a topic, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 unique  3 windows  4 dead
-- ARGV  values
-- Returns per value with something wrong: the value, 'holder', 'end' or 'value', and what is stored of it
local wrong = {}
for _, value in ipairs(ARGV) do
  local stored, until_ms = redis.call('HGET', KEYS[2], value), redis.call('ZSCORE', KEYS[3], value)
  local is_window = stored and string.find(stored, '^%S+ %d+$')
  local what
  if stored and not is_window then
    if redis.call('HEXISTS', KEYS[1], stored) == 0 or redis.call('ZSCORE', KEYS[4], stored) then
      what = 'holder'
    elseif until_ms then
      what = 'end'
    end
  elseif is_window and not until_ms then
    what = 'end'
  elseif not stored and until_ms then
    what = 'value'
  end
  if what then
    for _, text in ipairs({ value, what, stored or until_ms }) do wrong[#wrong + 1] = text end
  end
end
return wrong
