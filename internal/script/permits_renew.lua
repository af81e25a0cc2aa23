-- renew: each of these bundles of permits shall be held for at least so long, if
-- it is held.
--
-- KEYS[i]    the permits that are held at the i-th bundle's semaphore
-- ARGV[4...] for each bundle: time to live, ms, 0 only asks; how many permits it
--            has; their ids
--
-- {1, now, count...}  1 if all permits of the bundle are held, else 0
--
-- A key that is no semaphore any more must not fail its neighbours.
local reply = {1, at}
local p = 4
for i, key in ipairs(KEYS) do
  local ttl, n = tonumber(ARGV[p]), tonumber(ARGV[p + 1])
  local expiry, held = at + ttl, 1
  local short = {}
  for j = p + 2, p + 1 + n do
    local score = redis.pcall('ZSCORE', key, ARGV[j])
    score = type(score) == 'string' and tonumber(score) or 0
    if score <= at then
      held = 0
    elseif score < expiry then
      short[#short + 1] = ARGV[j]
    end
  end
  if held == 1 and ttl > 0 then
    even_if_full('ZREM', key)
    for _, id in ipairs(short) do
      redis.call('ZADD', key, string.format('%.0f', expiry), id)
    end
  end
  reply[i + 2] = held
  p = p + 2 + n
end
return reply
