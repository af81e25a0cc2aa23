-- read: who a client is, and since when it holds what. Changes nothing.
--
-- KEYS[1]  the client's hash
-- ARGV[4]  ... fields: what it may hold
--
-- {1, now, {program, version, host, process, since, since...}}  empty where nothing is known
-- HGET, since programs that use locks have the right to that one already.
local found = {}
for i, field in ipairs({'program', 'version', 'host', 'pid', 'since'}) do
  found[i] = redis.call('HGET', KEYS[1], field) or ''
end
for i = 4, #ARGV do
  found[#found + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
end
return {1, at, found}
