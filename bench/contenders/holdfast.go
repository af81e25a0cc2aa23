package contenders

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

const HoldfastName = "holdfast"

const holdfastNotes = "Lock and Unlock with the default options, on one client and one Mutex per goroutine. " +
	"The watchdog watches every hold. Waiters are woken by messages."

func holdfastOnGoRedis() Contender {
	return Contender{
		Name: HoldfastName, Client: GoRedis, Notes: holdfastNotes, Ours: true, Kinds: true,
		Open: func(_ context.Context, s Setup) (Session, error) {
			rdb := NewGoRedis(s)
			return newHoldfast(s, goredisdriver.New(rdb, goredisdriver.WithShardedPubSub(s.Cluster && !s.Plain)), rdb.Close)
		},
	}
}

func holdfastOnRueidis() Contender {
	return Contender{
		Name: HoldfastName, Client: RueidisLib, Notes: holdfastNotes, Ours: true, Kinds: true,
		Open: func(_ context.Context, s Setup) (Session, error) {
			client, err := rueidis.NewClient(RueidisOptions(s))
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

func newHoldfast(s Setup, d driver.Driver, disconnect func() error) (Session, error) {
	client, err := holdfast.New(d, holdfast.WithLease(s.Lease))
	if err != nil {
		return nil, errors.Join(err, disconnect())
	}
	return holdfastSession{client, disconnect}, nil
}

func (s holdfastSession) Pair(name string) Pair { return pairOf(s.client.NewMutex(name)) }

func (s holdfastSession) Fair(name string) Pair { return pairOf(s.client.NewFairMutex(name)) }

func (s holdfastSession) ReadWrite(name string) (read, write Pair) {
	mu := s.client.NewRWMutex(name)
	return pairOf(mu.RLocker()), pairOf(mu)
}

// pairOf is a pair of Lock and Unlock.
func pairOf(mu holdfast.Locker) Pair {
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

func (s holdfastSession) Close() error {
	return errors.Join(s.client.Close(), s.disconnect())
}
