package topology

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// duringMoves runs a test through go-redis and through rueidis, of which valkeydriver is made, on a cluster of its own.
func duringMoves(t *testing.T, test func(t *testing.T, s *redistest.Cluster, p *kit.Platform)) {
	t.Helper()
	t.Parallel()
	for _, client := range []string{"go-redis", "rueidis"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartCluster(t, 3, 0)
			if client == "go-redis" {
				test(t, s, kit.GoRedis("moving", redis.UniversalOptions{Addrs: s.Addrs()}, nil))
			} else {
				test(t, s, kit.RueidisAt("moving", rueidis.ClientOption{InitAddress: s.Addrs()}, nil))
			}
		})
	}
}

// Several slots are moved at once, with locks in them.
func TestMovingSlot(t *testing.T) {
	duringMoves(t, func(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
		for what, test := range map[string]func(t *testing.T, s *redistest.Cluster, p *kit.Platform){
			"KeepsHolds": movingHolds, "KeepsWaitersWaiting": movingWaiters, "KeepsReaders": movingReaders,
			"KeepsWritersOut": movingWriter, "FairAsks": movingAsks,
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				test(t, s, p)
			})
		}
	})
}

// Many locks are held in a slot of which half has been moved. Their renewals,
// which go as one call otherwise, do not fail together.
func movingHolds(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
	c := p.Client(t, holdfast.WithLease(8*time.Second))
	holds := map[string]*holdfast.Hold{}
	for i := range 20 {
		name := fmt.Sprintf("{holds}:%02d", i)
		holds[name] = kit.Must(t)(c.NewMutex(name).Lock(background))
	}
	m := s.BeginMove(t, "{holds}")
	for i, key := range m.Keys(t) {
		if i%2 == 0 {
			m.Key(t, key)
		}
	}
	time.Sleep(13 * time.Second) // the slot stays so for more than a lease
	for name, h := range holds {
		if h.Context().Err() != nil {
			t.Fatalf("%s was lost: %v", name, context.Cause(h.Context()))
		}
	}
	m.Finish(t)
	for _, h := range holds {
		kit.Unlock(t, h)
	}
}

// A call of several keys, not all of which exist, is refused for as long as their slot
// is moved, and not one moment longer. A waiter bears that, however long it takes.
func movingWaiters(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
	c := p.Client(t, holdfast.WithTimeout(5*time.Second))
	m := s.BeginMove(t, "{waiters}")
	got := map[string]<-chan error{
		"fenced": waits(c.NewMutex("{waiters}:fenced", holdfast.Fenced())),
		"fair":   waits(c.NewFairMutex("{waiters}:fair")),
		"reader": waits(c.NewRWMutex("{waiters}:rw").RLocker()),
	}
	time.Sleep(12 * time.Second) // more than two timeouts
	for name, done := range got {
		if len(done) > 0 {
			t.Fatalf("%s, while the slot was moved: %v", name, <-done)
		}
	}
	m.Finish(t)
	for _, done := range got {
		kit.OK(t, <-done)
	}
}

// A reader leaves whose keys have been moved with the lock, and another's has not.
// It is not taken for dead by that.
func movingReaders(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
	const name = "{readers}:rw"
	stays := kit.Must(t)(p.Client(t).NewRWMutex(name).RLock(background))
	leaves := kit.Must(t)(p.Client(t).NewRWMutex(name).RLock(background))
	m := s.BeginMove(t, name)
	m.Key(t, name)
	m.Key(t, kit.ReadHold(name, leaves.Owner().String(), 1))
	left := make(chan error, 1)
	go func() { left <- leaves.Unlock() }()
	time.Sleep(200 * time.Millisecond)
	if len(left) > 0 {
		t.Fatalf("it has left, though nobody knows who else reads: %v", <-left)
	}
	m.Finish(t)
	kit.OK(t, <-left)
	_, err := p.Client(t).NewRWMutex(name).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, stays)
}

// A writer asks whose place in front has been moved with the lock, and a reader's key
// has not. It is not let in.
func movingWriter(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
	const name = "{writers}:rw"
	l := p.Client(t).NewRWMutex(name, holdfast.WritersFirst())
	reading := kit.Must(t)(l.RLocker().Lock(background))
	next := waits(l)
	awaitKey(t, s, name, protocol.WaitlistKey(name))
	m := s.BeginMove(t, name)
	m.Key(t, name)
	m.Key(t, protocol.WaitlistKey(name))
	m.Key(t, protocol.RequestsKey(name))
	time.Sleep(4 * time.Second) // it asks every 3 s
	if len(next) > 0 {
		t.Fatal("a writer beside a reader")
	}
	m.Finish(t)
	kit.Unlock(t, reading)
	kit.OK(t, <-next)
}

// A waiter of a fair lock asks whose line has been moved, and what it has asked before has not. It asks without being noted
// there, so the move can end.
func movingAsks(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
	const name = "{asks}:fair"
	h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
	got := waits(p.Client(t).NewFairMutex(name))
	awaitKey(t, s, name, protocol.RequestsKey(name))
	m := s.BeginMove(t, name)
	for _, key := range []string{name, protocol.FairQueueKey(name), protocol.FairTimeoutsKey(name), protocol.FairHeartbeatsKey(name)} {
		m.Key(t, key)
	}
	time.Sleep(4 * time.Second) // it asks every 1.5 s
	m.Finish(t)
	kit.Unlock(t, h)
	kit.OK(t, <-got)
}

func awaitKey(t *testing.T, s *redistest.Cluster, name, key string) {
	t.Helper()
	node := s.NodeFor(t, name)
	kit.WaitFor(t, key, func() bool { return node.Cli(t, "EXISTS", key) == "1" })
}
