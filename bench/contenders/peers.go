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
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"
)

// redislockPoll is the shortest pause between two tries that the documentation
// of redislock recommends (at ExponentialBackoff).
const redislockPoll = 16 * time.Millisecond

func redislockOnGoRedis() Contender {
	return Contender{
		Name: "redislock", Client: GoRedis,
		Notes: fmt.Sprintf("Obtain and Release on one client. Waiters try again every %v (LinearBackoff), "+
			"the shortest pause that its documentation recommends. Nothing renews the lease.", redislockPoll),
		Open: func(_ context.Context, s Setup) (Session, error) {
			rdb := NewGoRedis(s)
			return redislockSession{redislock.New(rdb), rdb, s.Lease}, nil
		},
	}
}

type redislockSession struct {
	client *redislock.Client
	rdb    redis.UniversalClient
	lease  time.Duration
}

func (s redislockSession) Pair(name string) Pair {
	// A linear backoff has no state, so the options may be used again.
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPoll)}
	return func(ctx context.Context, critical func()) error {
		lock, err := s.client.Obtain(ctx, name, s.lease, options)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if err := lock.Release(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
}

func (s redislockSession) Close() error { return s.rdb.Close() }

func redsyncOnGoRedis() Contender {
	return Contender{
		Name: "redsync", Client: GoRedis,
		Notes: "LockContext and UnlockContext on one pool, one Mutex per goroutine. Waiters try again after its " +
			"default pause (50 to 250 ms, at random), without the default bound of 32 tries. Nothing renews the lease.",
		Open: func(_ context.Context, s Setup) (Session, error) {
			rdb := NewGoRedis(s)
			return redsyncSession{redsync.New(goredis.NewPool(rdb)), rdb, s.Lease}, nil
		},
	}
}

type redsyncSession struct {
	sync  *redsync.Redsync
	rdb   redis.UniversalClient
	lease time.Duration
}

func (s redsyncSession) Pair(name string) Pair {
	mu := s.sync.NewMutex(name, redsync.WithExpiry(s.lease), redsync.WithTries(math.MaxInt32))
	return func(ctx context.Context, critical func()) error {
		if err := mu.LockContext(ctx); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if ok, err := mu.UnlockContext(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		} else if !ok {
			return errors.New("unlock: it was not held")
		}
		return nil
	}
}

func (s redsyncSession) Close() error { return s.rdb.Close() }

func rueidislockOnRueidis() Contender {
	return Contender{
		Name: "rueidislock", Client: RueidisLib,
		Notes: "WithContext on one Locker, set up as its README says for one server: KeyMajority 1 and " +
			"NoLoopTracking. It makes its client itself, with one connection, extends its locks, and gets to know of " +
			"releases by client-side caching. Its release returns no error.",
		Open: func(_ context.Context, s Setup) (Session, error) {
			locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: RueidisOptions(s), KeyMajority: 1, NoLoopTracking: true, KeyValidity: s.Lease,
			})
			return rueidislockSession{locker}, err
		},
	}
}

type rueidislockSession struct{ locker rueidislock.Locker }

func (s rueidislockSession) Pair(name string) Pair {
	return func(ctx context.Context, critical func()) error {
		_, release, err := s.locker.WithContext(ctx, name)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		release()
		return nil
	}
}

func (s rueidislockSession) Close() error {
	s.locker.Close()
	return nil
}
