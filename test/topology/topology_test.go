package topology

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Each shape of server, through each client that reaches it: a lock is taken,
// waited for, handed over by message, renewed and released.

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("s3cret"))
	addrs := []string{s.Addr()}
	for _, p := range []*kit.Platform{
		kit.GoRedis("tls", redis.UniversalOptions{Addrs: addrs, Password: "s3cret", TLSConfig: s.TLSConfig()}, kit.CLI(s)),
		kit.RueidisAt("tls", rueidis.ClientOption{InitAddress: addrs, Password: "s3cret", TLSConfig: s.TLSConfig()}, kit.CLI(s)),
	} {
		t.Run(p.Name, func(t *testing.T) { takeWaitRelease(t, p, kit.MutexKind, kit.Fresh()) })
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	for i, p := range kit.Both("cluster", s.Addrs(), kit.OnCluster(s)) {
		p.Sharded = redistest.AtLeast(t, 7, 0)
		for _, tag := range []string{"", "{tag}:"}[:2-i] { // names of one slot are the same to each client
			t.Run(p.Name+"/"+tag, func(t *testing.T) {
				t.Parallel()
				kit.ForKinds(t, func(t *testing.T, k *kit.Kind) { takeWaitRelease(t, p, k, tag+kit.Fresh()) })
			})
		}
	}
}

// takeWaitRelease does what there is to do with one lock, by way of two clients.
func takeWaitRelease(t *testing.T, p *kit.Platform, k *kit.Kind, name string) {
	t.Helper()
	h := kit.Must(t)(k.Lock(p.Client(t, holdfast.WithLease(9*time.Second)), name).Lock(background))
	p.WantCount(t, k, name, h.Owner(), 1)
	granted := h.Deadline()
	kit.WaitFor(t, "a renewal", func() bool { return h.Context().Err() != nil || h.Deadline().After(granted) })
	got := waits(k.Against(p.Client(t), name))
	p.AwaitWaiter(t, k, name)
	kit.Unlock(t, h)
	kit.OK(t, <-got)
	kit.WaitFor(t, "the release", func() bool {
		return len(k.Left(p.Do(t, name, "KEYS", "*"+name+"*"), name)) == 0
	})
	kit.WaitFor(t, "the end of the subscription", func() bool { return !p.Listens(t, name) })
}

// waits has a lock waited for, and given back. What is returned says how that went.
func waits(l holdfast.Locker) <-chan error {
	done := make(chan error, 1)
	go func() {
		h, err := l.Lock(background, holdfast.Wait(time.Minute))
		if err == nil {
			err = h.Unlock()
		}
		done <- err
	}()
	return done
}

// One waiter a kind and client waits through a failover. Which owner the new primary
// knows is not promised, nor that a hold lasts which the old one granted meanwhile; that
// the waiters go on is.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	platforms := []*kit.Platform{
		kit.GoRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, nil),
		kit.RueidisAt("sentinel", rueidis.ClientOption{
			InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
		}, nil),
	}
	var holds []*holdfast.Hold
	waiters := map[string]<-chan error{}
	holder := platforms[0].Client(t)
	for _, k := range kit.Kinds {
		name := kit.Fresh()
		holds = append(holds, kit.Must(t)(k.Lock(holder, name).Lock(background)))
		for _, p := range platforms {
			waiters[p.Name+", "+k.Name] = waits(k.Against(p.Client(t), name))
		}
	}
	s.Failover(t)
	for _, h := range holds {
		if err := h.Unlock(); err != nil {
			t.Logf("the holder's unlock, after a failover: %v", err)
		}
	}
	for who, done := range waiters {
		if err := <-done; err != nil && !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s: %v", who, err)
		}
	}
}
