package fencing

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// save writes a hash unless a greater token has written it before. Redis runs it
// as one step.
var save = redis.NewScript(`
local last = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if last > tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'body', ARGV[2])
return 1`)

// SaveInRedis writes a hash, unless a holder with a greater token has written it
// before.
func SaveInRedis(ctx context.Context, rdb redis.UniversalClient, token int64, key, body string) error {
	written, err := save.Run(ctx, rdb, []string{key}, token, body).Bool()
	if err == nil && !written {
		err = ErrStale
	}
	return err
}
