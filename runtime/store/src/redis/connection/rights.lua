-- Whether the connection's user may use the commands of the scripts: one that is refused ends its script in the midst, behind what was
-- written before it. Writes nothing.
--
-- ARGV  1 a key below the prefix, then names of commands whose first argument is a key
-- Returns nothing, or the error that names the commands. Before version 7, a Redis cannot tell.
if not redis.acl_check_cmd then return end
local lacking = {}
for i = 2, #ARGV do
  local is_known, may = pcall(redis.acl_check_cmd, ARGV[i], ARGV[1])
  if not is_known and not string.find(tostring(type(may) == 'table' and may.err or may), 'Invalid command', 1, true) then return end
  if not is_known then return redis.error_reply("ERR unknown command '" .. ARGV[i] .. "'") end
  if not may then lacking[#lacking + 1] = "'" .. string.lower(ARGV[i]) .. "'" end
end
-- All but those without a key: the user may not use the keys.
if #lacking + 3 >= #ARGV then
  return redis.error_reply('NOPERM this user has no permissions to access the key ' .. ARGV[1])
end
if #lacking > 0 then
  return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat(lacking, ', '))
end
