-- How many jobs of each topic and of the tenant run, compared with what is noted, at one moment. Changes nothing.
--
-- KEYS  1 jobs  2 claims  3 counts  4 tenant
-- ARGV  1 how many entries `claims` may have
-- Returns { -1 } if there are more, or a running job cannot be read; or per topic that is counted wrong: its name ('': the tenant), how many jobs run, how many are
--         noted
if redis.call('HLEN', KEYS[2]) > tonumber(ARGV[1]) then return { -1 } end

-- The topic of a stored job: its envelope begins with it. '' if there is no such job, nil if that is written otherwise.
local function topic_of(id)
  local body = redis.call('HGET', KEYS[1], id)
  if not body then return '' end
  local length, first = string.byte(body, 20), 21
  if not length or string.sub(body, 18, 19) ~= '\1612' then return nil end
  if length == 217 then length, first = string.byte(body, 21) or 0, 22 else length = length - 160 end
  return string.sub(body, first, first + length - 1)
end

local running, all, wrong = {}, 0, {}
local function note(topic, n, noted)
  for _, text in ipairs({ topic, tostring(n), noted }) do wrong[#wrong + 1] = text end
end
local claims = redis.call('HGETALL', KEYS[2])
for i = 1, #claims, 2 do
  local _, _, holder = parse_claim(claims[i + 1])
  local topic = (holder or '') == '' and '' or topic_of(claims[i])
  if not topic then return { -1 } end
  if topic ~= '' then running[topic], all = (running[topic] or 0) + 1, all + 1 end
end
local counts = redis.call('HGETALL', KEYS[3])
for i = 1, #counts, 2 do
  local topic = string.match(counts[i], '^(.*):running$')
  if topic and (running[topic] or 0) ~= tonumber(counts[i + 1]) then note(topic, running[topic] or 0, counts[i + 1]) end
  if topic then running[topic] = nil end
end
for topic, n in pairs(running) do note(topic, n, '0') end
local of_tenant = redis.call('HGET', KEYS[4], 'running')
if of_tenant and tonumber(of_tenant) ~= all then note('', all, of_tenant) end
return wrong
