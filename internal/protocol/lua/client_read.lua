-- read: who a client is, and since when it holds what. Changes nothing.
--
-- KEYS[1]  the client's hash
-- ARGV[4]  ... fields: what it may hold
--
-- {1, now, {program, version, host, process, since, since...}}  empty where nothing is known
-- HGET, since programs that use locks have the right to that one already.
--
-- Anybody may write there, so no more of a text is sent than identities have.
local found = {}
local function read(field)
  found[#found + 1] = string.sub(redis.call('HGET', KEYS[1], field) or '', 1, 128)
end
for _, field in ipairs({'program', 'version', 'host', 'pid', 'since'}) do
  read(field)
end
for i = 4, #ARGV do
  read(ARGV[i])
end
return {1, at, found}
