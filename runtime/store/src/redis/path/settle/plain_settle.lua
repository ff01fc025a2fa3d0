-- Put, after ends, in front of settle and of all that it builds upon, whose KEYS and ARGV it reads: ends of jobs that are completed or expired, and of
-- which nothing else is to be written. Most are, and then pay for no function and no question that only others need.

local GONE = { ack = 'acked', expire = 'expired' }
-- How jobs that wait for one know that it has ended: see links.
local ENDED_AS = { acked = 'c', expired = 'e', cancelled = 'x' }

-- Returns what settle returns. Nil, and nothing has changed, if settle has to look closer: at another verdict, a topic with a row, a result, a
-- follow-up job, a client that waits for the end; at a lease that is lost, a job that was claimed before or is named twice; at jobs that are cancelled,
-- have a lease of their own or wait for others, and at limits.
local function settle_plain()
  local claims, leases, holders = KEYS[15], KEYS[16], tonumber(ARGV[5])
  if ARGV[6 + holders] ~= '0' then return nil end
  local topics = tonumber(ARGV[7 + holders])
  -- Before the first id.
  local before = 8 + holders + topics
  local n = tonumber(ARGV[before])
  local groups, cursor = {}, before + n + 1
  for g = 1, tonumber(ARGV[cursor]) do
    if not GONE[ARGV[cursor + 4]] or ARGV[cursor + 6] ~= '' or ARGV[cursor + 11] ~= '' then return nil end
    groups[g] = cursor
    cursor = cursor + 16 + (ARGV[cursor + 15] ~= '' and tonumber(ARGV[cursor + 16]) or 0)
  end
  -- What comes then are follow-up jobs.
  if cursor < #ARGV then return nil end

  local history = redis.call('HMGET', claims, unpack(ARGV, before + 1, before + n))
  local ids_of, leaving_of, last = {}, {}, 0
  for c = 1, holders do ids_of[c], leaving_of[c] = {}, {} end
  for _, at in ipairs(groups) do
    local claim, delivery = tonumber(ARGV[at + 1]), ARGV[at + 3]
    local usual, ids, leaving = delivery .. ':' .. delivery .. ':' .. ARGV[5 + claim], ids_of[claim], leaving_of[claim]
    for i = last + 1, last + tonumber(ARGV[at + 16]) do
      local id = ARGV[before + i]
      if history[i] ~= usual or leaving[id] then return nil end
      ids[#ids + 1], leaving[id], last = id, true, i
    end
  end
  local some, special = { KEYS[17], KEYS[18], KEYS[2], KEYS[9] }, { KEYS[19], KEYS[20], KEYS[22], KEYS[23], KEYS[14] }
  if redis.call('EXISTS', KEYS[19], KEYS[20], KEYS[22], KEYS[23], KEYS[14], unpack(some)) == 0 then
    some = {}
  elseif redis.call('EXISTS', unpack(special)) > 0 then
    return nil
  end

  local stored, now = { jobs = KEYS[1], claims = claims, some = some }, nil
  for c = 1, holders do remove_stored(stored, ids_of[c]) end
  for _, at in ipairs(groups) do
    local topic, as, jobs, retention = tonumber(ARGV[at + 2]), GONE[ARGV[at + 4]], tonumber(ARGV[at + 16]), ARGV[at + 7]
    local name = ARGV[7 + holders + topic]
    count(name, 'running', -jobs)
    count(name, as, jobs)
    if retention ~= '' then
      now = now or clock(ARGV[1])
      remember(KEYS[23 + holders + topics + topic], ARGV[at + 10], ENDED_AS[as], ARGV[at + 3],
               string.format('%.0f %s', now, retention), ARGV[at + 8], ARGV[at + 9] ~= '')
    end
  end
  for c = 1, holders do leave(leases, KEYS[23 + c], ARGV[5 + c], ids_of[c], leaving_of[c]) end
  save_counts(KEYS[6])
  keep_answers(KEYS[21], ARGV[4], {})
  return {}
end

local plain_reply = settle_plain()
if plain_reply then return plain_reply end
