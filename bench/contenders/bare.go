package contenders

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// The least that a lock with a waiting line can do: set a field and a time to
// live, delete the key and announce it. No library that takes a lock with one
// script and gives it back with another can be faster on the same client, unless it
// sends the calls of several goroutines together.
const (
	BareTake = `redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`
	BareGive = `redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1`
	BareName  = "bare"
	bareNotes = "No lock, but the limit: EVALSHA of HSET and PEXPIRE, then EVALSHA of DEL and PUBLISH, " +
		"with nothing around them."
	BareOwner = "00000000-0000-4000-8000-000000000000:1" // as long as a real one
)

func bareOnGoRedis() Contender {
	return Contender{
		Name: BareName, Client: GoRedis, Notes: bareNotes, Bare: true,
		Open: func(_ context.Context, s Setup) (*Session, error) {
			rdb, take, give := NewGoRedis(s), redis.NewScript(BareTake), redis.NewScript(BareGive)
			return bareSession(s, rdb.Close, func(ctx context.Context, keys []string, lease string) error {
				return take.Run(ctx, rdb, keys, BareOwner, lease).Err() // it falls back to EVAL once, when the server does not know the script
			}, func(ctx context.Context, keys []string) error { return give.Run(ctx, rdb, keys).Err() }), nil
		},
	}
}

func bareOnRueidis() Contender {
	return Contender{
		Name: BareName, Client: RueidisLib, Notes: bareNotes, Bare: true,
		Open: func(_ context.Context, s Setup) (*Session, error) {
			client, err := rueidis.NewClient(RueidisOptions(s))
			if err != nil {
				return nil, err
			}
			take, give, args := rueidis.NewLuaScript(BareTake), rueidis.NewLuaScript(BareGive), []string{BareOwner, millis(s)}
			return bareSession(s, closing(client), func(ctx context.Context, keys []string, _ string) error {
				return take.Exec(ctx, client, keys, args).Error()
			}, func(ctx context.Context, keys []string) error { return give.Exec(ctx, client, keys, nil).Error() }), nil
		},
	}
}

// bareSession is a session with these two scripts.
func bareSession(
	s Setup, disconnect func() error, take func(ctx context.Context, keys []string, lease string) error, give func(ctx context.Context, keys []string) error,
) *Session {
	lease := millis(s)
	return &Session{Close: disconnect, Pair: func(name string) Pair {
		key, both := []string{name}, []string{name, name + ":channel"}
		return pairOf(
			func(ctx context.Context) (struct{}, error) { return struct{}{}, take(ctx, key, lease) },
			func(ctx context.Context, _ struct{}) error { return give(ctx, both) })
	}}
}

func millis(s Setup) string { return strconv.FormatInt(s.Lease.Milliseconds(), 10) }

// closing closes a client that returns no error.
func closing(client interface{ Close() }) func() error {
	return func() error { client.Close(); return nil }
}
