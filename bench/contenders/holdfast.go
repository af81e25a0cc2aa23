package contenders

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/rueidisdriver"
)

// HoldfastName is what it is called, on whatever client.
const HoldfastName = "holdfast"

const holdfastNotes = "Lock and Unlock with the default options, on one client and one Mutex per goroutine. " +
	"The watchdog watches every hold. Waiters are woken by messages."

func holdfastOnGoRedis() Contender {
	return Contender{
		Name: HoldfastName, Client: GoRedis, Notes: holdfastNotes, Ours: true, Kinds: true,
		Open: func(_ context.Context, s Setup) (*Session, error) {
			rdb := NewGoRedis(s)
			return newHoldfast(s, goredisdriver.New(rdb, goredisdriver.WithShardedPubSub(s.Cluster && !s.Plain)), rdb.Close)
		},
	}
}

func holdfastOnRueidis() Contender {
	return Contender{
		Name: HoldfastName, Client: RueidisLib, Notes: holdfastNotes, Ours: true, Kinds: true,
		Open: func(_ context.Context, s Setup) (*Session, error) {
			client, err := rueidis.NewClient(RueidisOptions(s))
			if err != nil {
				return nil, err
			}
			return newHoldfast(s, rueidisdriver.New(client, rueidisdriver.WithShardedPubSub(s.Cluster && !s.Plain)), closing(client))
		},
	}
}

// newHoldfast returns a session that owns the client and the connections under it.
func newHoldfast(s Setup, d driver.Driver, disconnect func() error) (*Session, error) {
	client, err := holdfast.New(d, holdfast.WithLease(s.Lease))
	if err != nil {
		return nil, errors.Join(err, disconnect())
	}
	pair := func(mu holdfast.Locker) Pair {
		return pairOf(
			func(ctx context.Context) (*holdfast.Hold, error) { return mu.Lock(ctx) },
			func(_ context.Context, hold *holdfast.Hold) error { return hold.Unlock() })
	}
	return &Session{
		Pair:  func(name string) Pair { return pair(client.NewMutex(name)) },
		Fair:  func(name string) Pair { return pair(client.NewFairMutex(name)) },
		Holds: func(n int) Holds { return holdfastHolds(client, n) },
		ReadWrite: func(name string) (read, write Pair) {
			mu := client.NewRWMutex(name)
			return pair(mu.RLocker()), pair(mu)
		},
		Close: func() error { return errors.Join(client.Close(), disconnect()) },
	}, nil
}

func holdfastHolds(client *holdfast.Client, n int) Holds {
	holds := make([]*holdfast.Hold, n)
	return Holds{
		Take: func(ctx context.Context, i int, name string) (err error) {
			holds[i], err = client.NewMutex(name).Lock(ctx)
			return err
		},
		Lost: func() (lost int) {
			for _, hold := range holds {
				if hold != nil && hold.Context().Err() != nil {
					lost++
				}
			}
			return lost
		},
		GiveBack: func(i int) error {
			if holds[i] == nil {
				return nil
			}
			return holds[i].Unlock()
		},
	}
}
