package contenders

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast/internal/call"
)

// redislockPoll is the shortest pause between two tries that the documentation
// of redislock recommends (at ExponentialBackoff).
const redislockPoll = 16 * time.Millisecond

func redislockOnGoRedis() Contender {
	return Contender{
		Name: "redislock", Client: GoRedis,
		Notes: fmt.Sprintf("Obtain and Release on one client. Waiters try again every %v (LinearBackoff), "+
			"the shortest pause that its documentation recommends. Nothing renews the lease.", redislockPoll),
		Open: func(_ context.Context, s Setup) (*Session, error) {
			rdb := NewGoRedis(s)
			client := redislock.New(rdb)
			// A linear backoff has no state, so the options may be used again.
			options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPoll)}
			return &Session{
				Close: rdb.Close,
				Pair: func(name string) Pair {
					return pairOf(
						func(ctx context.Context) (*redislock.Lock, error) { return client.Obtain(ctx, name, s.Lease, options) },
						func(ctx context.Context, lock *redislock.Lock) error { return lock.Release(ctx) })
				},
				Lock: func(ctx context.Context, name string) (Grant, error) {
					lock, err := client.Obtain(ctx, name, s.Lease, options)
					return Grant{Unlock: func() error { return lock.Release(context.WithoutCancel(ctx)) }}, err
				},
			}, nil
		},
	}
}

func redsyncOnGoRedis() Contender {
	return Contender{
		Name: "redsync", Client: GoRedis,
		Notes: "LockContext and UnlockContext on one pool, one Mutex per goroutine. Waiters try again after its " +
			"default pause (50 to 250 ms, at random), without the default bound of 32 tries. Nothing renews the lease.",
		Open: func(_ context.Context, s Setup) (*Session, error) {
			rdb := NewGoRedis(s)
			sync := redsync.New(goredis.NewPool(rdb))
			mutex := func(name string) *redsync.Mutex {
				return sync.NewMutex(name, redsync.WithExpiry(s.Lease), redsync.WithTries(math.MaxInt32))
			}
			unlock := func(ctx context.Context, mu *redsync.Mutex) error {
				ok, err := mu.UnlockContext(ctx)
				if err == nil && !ok {
					err = errors.New("it was not held")
				}
				return err
			}
			return &Session{
				Close: rdb.Close,
				Pair: func(name string) Pair {
					mu := mutex(name)
					return pairOf(func(ctx context.Context) (*redsync.Mutex, error) { return mu, mu.LockContext(ctx) }, unlock)
				},
				Lock: func(ctx context.Context, name string) (Grant, error) {
					mu := mutex(name)
					return Grant{Unlock: func() error { return unlock(context.WithoutCancel(ctx), mu) }}, mu.LockContext(ctx)
				},
			}, nil
		},
	}
}

func rueidislockOnRueidis() Contender {
	return Contender{
		Name: "rueidislock", Client: RueidisLib,
		Notes: "WithContext on one Locker, set up as its README says for one server: KeyMajority 1 and " +
			"NoLoopTracking. It makes its client itself, with one connection, extends its locks, and gets to know of " +
			"releases by client-side caching. Its release returns no error.",
		Open: func(_ context.Context, s Setup) (*Session, error) {
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: RueidisOptions(s), KeyMajority: 1, NoLoopTracking: true, KeyValidity: s.Lease,
			})
			if err != nil {
				return nil, err
			}
			return &Session{
				Close: closing(locker),
				Holds: func(n int) Holds { return rueidislockHolds(locker, n) },
				Pair: func(name string) Pair {
					return pairOf(func(ctx context.Context) (context.CancelFunc, error) {
						_, release, err := locker.WithContext(ctx, name)
						return release, err
					}, func(_ context.Context, release context.CancelFunc) error { release(); return nil })
				},
				Lock: func(ctx context.Context, name string) (Grant, error) {
					held, release, err := locker.WithContext(ctx, name)
					if err != nil {
						return Grant{}, err
					}
					return Grant{held.Done(), func() error { release(); return nil }}, nil
				},
			}, nil
		},
	}
}

func rueidislockHolds(locker rueidislock.Locker, n int) Holds {
	contexts, releases := make([]context.Context, n), make([]context.CancelFunc, n)
	return Holds{
		// Take tries until it has the lock, which is free. WithContext would wait for a
		// message when Redis has not answered an attempt within 20 ms, and none may come.
		Take: func(ctx context.Context, i int, name string) error {
			for {
				held, release, err := locker.TryWithContext(ctx, name)
				if err == nil {
					contexts[i], releases[i] = held, release //nolint:fatcontext // one of many, not derived from the one before
					return nil
				}
				if errors.Is(err, rueidislock.ErrLockerClosed) || ctx.Err() != nil {
					return err
				}
				call.Sleep(ctx, time.Millisecond)
			}
		},
		Lost: func() (lost int) {
			for i, ctx := range contexts {
				if releases[i] != nil && ctx.Err() != nil {
					lost++
				}
			}
			return lost
		},
		GiveBack: func(i int) error {
			if releases[i] != nil {
				releases[i]()
			}
			return nil
		},
	}
}
