-- What both semaphores share: the waiter that others stand back for, so that one
-- who wants many permits is not overtaken for ever by those who want one.
--
-- At a key of our own stands how many permits are wanted, and by whom. The first
-- who is refused writes it, and renews it with each try; it goes when that waiter
-- is let in, when it leaves, or with its time to live.

-- How long a waiter is stood back for that is not heard of, ms. It tries again
-- within three seconds.
local patience = 7000

-- wanted says how many permits another one waits for that must stay for it.
local function wanted(key, who)
  local text = redis.call('GET', key) or ''
  local space = string.find(text, ' ', 1, true)
  if not space or string.sub(text, space + 1) == who then
    return 0
  end
  return tonumber(string.sub(text, 1, space - 1)) or 0
end

-- stand_next writes down who waits for how many, unless another waits already.
local function stand_next(key, who, n)
  if wanted(key, who) == 0 then
    redis.call('SET', key, n .. ' ' .. who, 'PX', patience)
  end
end

-- stand_down takes back what stand_next has written, and reports whether it had.
local function stand_down(key, who)
  local text = redis.call('GET', key)
  if text and wanted(key, who) == 0 then
    redis.call('DEL', key)
    return true
  end
end
