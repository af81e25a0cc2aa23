-- renew: each of these permits shall be held for at least so long, if it is held.
--
-- KEYS[i]    the permits that are held at the i-th hold's semaphore
-- ARGV[4...] for each hold: time to live, ms, 0 only asks; how many permits it
--            has; their ids
--
-- {1, now, {held, first, last, end, id...}...}
--            for each hold, as texts: how many of its permits are held; for how
--            long all of those are, and for how long any is, ms, -1: for ever; when
--            the semaphore ends, and they with it, -1: never; the ids of those that
--            are not held
--
-- A key that is no semaphore any more must not fail its neighbours.

-- from common: even_if_full
local function text(n)
  return string.format('%.0f', n)
end

local never = 922337203685477
local function left(score)
  return text(score < never and score - at or -1)
end

local reply = {1, at}
local p = 4
for i, key in ipairs(KEYS) do
  local ttl, n = tonumber(ARGV[p]), tonumber(ARGV[p + 1])
  if not (n >= 0 and n < #ARGV - p) then
    return redis.error_reply('ERR fewer permits are named than the arguments say')
  end
  local expiry, held, first, last = at + ttl, 0, never, at
  local short, answer = {}, {'', '', '', ''}
  for j = p + 2, p + 1 + n do
    local score = redis.pcall('ZSCORE', key, ARGV[j])
    score = type(score) == 'string' and tonumber(score) or 0
    if score <= at then
      answer[#answer + 1] = ARGV[j]
    else
      held = held + 1
      first, last = math.min(first, math.max(score, expiry)), math.max(last, score, expiry)
      if score < expiry then
        short[#short + 1] = ARGV[j]
      end
    end
  end
  if #short > 0 then
    even_if_full('ZREM', key)
  end
  for _, id in ipairs(short) do
    redis.call('ZADD', key, text(expiry), id)
  end
  answer[1], answer[2], answer[3], answer[4] = text(held), left(first), left(last), text(redis.call('PTTL', key))
  reply[i + 2] = answer
  p = p + 2 + n
end
return reply
