package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

const holdfastName = "holdfast"

const holdfastNotes = "Lock and Unlock with the default options, on one client and one Mutex per goroutine. " +
	"The watchdog watches every hold. Waiters are woken by messages."

func holdfastOnGoRedis() contender {
	return contender{
		name: holdfastName, client: goRedis, notes: holdfastNotes, ours: true, kinds: true,
		open: func(_ context.Context, s setup) (session, error) {
			rdb := newGoRedis(s)
			return newHoldfast(s, goredisdriver.New(rdb, goredisdriver.WithShardedPubSub(s.Cluster && !s.Plain)), rdb.Close)
		},
	}
}

func holdfastOnRueidis() contender {
	return contender{
		name: holdfastName, client: rueidisLib, notes: holdfastNotes, ours: true, kinds: true,
		open: func(_ context.Context, s setup) (session, error) {
			client, err := rueidis.NewClient(rueidisOptions(s))
			if err != nil {
				return nil, err
			}
			return newHoldfast(s, rueidisdriver.New(client, rueidisdriver.WithShardedPubSub(s.Cluster && !s.Plain)), func() error { client.Close(); return nil })
		},
	}
}

// holdfastSession owns the client and the connections under it.
type holdfastSession struct {
	client     *holdfast.Client
	disconnect func() error
}

func newHoldfast(s setup, d driver.Driver, disconnect func() error) (session, error) {
	client, err := holdfast.New(d, holdfast.WithLease(s.Lease))
	if err != nil {
		return nil, errors.Join(err, disconnect())
	}
	return holdfastSession{client, disconnect}, nil
}

func (s holdfastSession) pair(name string) pair { return pairOf(s.client.NewMutex(name)) }

func (s holdfastSession) fair(name string) pair { return pairOf(s.client.NewFairMutex(name)) }

func (s holdfastSession) readWrite(name string) (read, write pair) {
	mu := s.client.NewRWMutex(name)
	return pairOf(mu.RLocker()), pairOf(mu)
}

// pairOf is a pair of Lock and Unlock.
func pairOf(mu holdfast.Locker) pair {
	return func(ctx context.Context, critical func()) error {
		hold, err := mu.Lock(ctx)
		if err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		critical()
		if err := hold.Unlock(); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
}

func (s holdfastSession) close() error {
	return errors.Join(s.client.Close(), s.disconnect())
}
