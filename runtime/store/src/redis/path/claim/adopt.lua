-- Put in front of the scripts that meet what others wrote to ready Lists and delayed ZSETs behind the store's back:
-- claim, adopt_waiting.

-- Whether raw producers write to the topic, as far as the store knows. `raw`: ZSET topic -> when a runner whose manifest says so last looked at it.
local function is_raw(raw, topic, now)
  local looked = redis.call('ZSCORE', raw, topic)
  return looked and now - tonumber(looked) < RAW_FOR
end

-- MessagePack of a string, as text or as bytes.
local function pack_text(text)
  if #text < 32 then return string.char(160 + #text) .. text end
  return struct.pack('>BB', 217, #text) .. text
end
local function pack_bytes(bytes)
  if #bytes < 256 then return struct.pack('>BB', 196, #bytes) .. bytes end
  if #bytes < 65536 then return struct.pack('>BI2', 197, #bytes) .. bytes end
  return struct.pack('>BI4', 198, #bytes) .. bytes
end

-- How MessagePack writes what has a length or a fixed size, by its first byte. Redis' own reader knows no bytes (bin).
local function format_of(first)
  local sized = { [196] = '>I1', [197] = '>I2', [198] = '>I4', [217] = '>I1', [218] = '>I2', [219] = '>I4' }
  local fixed = { [202] = '>f', [203] = '>d', [204] = '>I1', [205] = '>I2', [206] = '>I4', [207] = '>I8',
                  [208] = '>i1', [209] = '>i2', [210] = '>i4', [211] = '>i8' }
  return sized[first], fixed[first]
end

-- The text, bytes or number at `from`, and where the next value begins. Nothing for what is cut off or of another kind.
local function read_plain(packed, from)
  local first = string.byte(packed, from)
  if not first then return nil end
  if first < 128 then return first, from + 1 end
  local sized, fixed = format_of(first)
  if fixed then
    if from + struct.size(fixed) > #packed then return nil end
    return struct.unpack(fixed, packed, from + 1)
  end
  local length, start = first - 160, from + 1
  if sized then
    if from + struct.size(sized) > #packed then return nil end
    length, start = struct.unpack(sized, packed, from + 1)
  elseif first < 160 or first > 191 then
    return nil
  end
  if start + length - 1 > #packed then return nil end
  return string.sub(packed, start, start + length - 1), start + length
end

-- The fields of a MessagePack map of texts, bytes and numbers with a payload under '4', or nil for anything else.
local function fields_of(element)
  local first = string.byte(element)
  if not first or first < 129 or first > 143 then return nil end
  local fields, at = {}, 2
  for _ = 1, first - 128 do
    local key, value
    key, at = read_plain(element, at)
    if not at then return nil end
    value, at = read_plain(element, at)
    if not at then return nil end
    if type(key) == 'string' then fields[key] = value end
  end
  return at == #element + 1 and type(fields['4']) == 'string' and fields or nil
end

-- The id that the producer gave the job, if it is one and no stored job has it; else one that no stored job has.
local function adopted_id(is_used, wanted, element, now, nth)
  if type(wanted) == 'number' and wanted % 1 == 0 and math.abs(wanted) < 1e15 then
    wanted = string.format('%.0f', wanted)
  end
  if type(wanted) == 'string' and #wanted <= 64 and string.find(wanted, '^[%w%-_%.]+$')
    and not string.find(wanted, '^%.%.?$') and not is_used(wanted) then
    return wanted
  end
  local id, seed = nil, element
  repeat
    seed = redis.sha1hex(seed .. ' ' .. now .. ' ' .. nth)
    id = 'raw-' .. string.sub(seed, 1, 22)
  until not is_used(id)
  return id
end

-- A time in seconds as ms, if it is one since the year 2001 and not later than now.
local function plausible(seconds, now)
  local ms = type(seconds) == 'number' and math.floor(seconds * 1000)
  return ms and ms >= 1e12 and ms <= now and ms or nil
end

-- The job of the topic that the `nth` element of a call describes: its id, and its stamp and envelope. `is_used` says whether another
-- job has an id.
local function adopt(is_used, topic, element, now, nth)
  local fields = fields_of(element) or { ['4'] = element }
  local id = adopted_id(is_used, fields['1'], element, now, nth)
  local enqueued = plausible(fields['5'], now) or now
  local delay = type(fields['3']) == 'number' and fields['3'] >= 0 and fields['3'] * 1000 or 0
  local due = math.min(now, enqueued + math.floor(delay))
  local envelope = '\130\1612' .. pack_text(topic) .. '\1614' .. pack_bytes(fields['4'])
  return id, struct.pack('>I8I8', enqueued, due) .. envelope
end

-- Stores a job that adopt() has made of an element.
local function store_adopted(jobs, topics, large, topic, id, body, now)
  note_large(large, id, body)
  redis.call('HSET', jobs, id, body)
  redis.call('ZADD', topics, 'GT', now, topic)
  count(topic, 'adopted')
end
