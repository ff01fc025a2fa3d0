-- Deletes the state of a key.
--
-- KEYS  1 the state
-- ARGV  1 the only version to delete, '': any
-- Returns { 1 } deleted, { 0 } there is none, { 2 } it has another version.
local version = state_version(KEYS[1])
if not version then return { 0 } end
if ARGV[1] ~= '' and ARGV[1] ~= version then return { 2 } end
redis.call('DEL', KEYS[1])
return { 1 }
