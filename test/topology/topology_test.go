package topology

import (
	"context"
	"errors"
	"slices"
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

// both returns what has these addresses through both adapters.
func both(name string, addrs []string, do func(*testing.T, string, ...string) []string) []*kit.Platform {
	return []*kit.Platform{
		kit.GoRedis(name, redis.UniversalOptions{Addrs: addrs}, do),
		kit.RueidisAt(name, rueidis.ClientOption{InitAddress: addrs}, do),
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("s3cret"))
	addrs := []string{s.Addr()}
	everyKind(t, kit.GoRedis("tls", redis.UniversalOptions{Addrs: addrs, Password: "s3cret", TLSConfig: s.TLSConfig()}, kit.CLI(s)))
	everyKind(t, kit.RueidisAt("tls", rueidis.ClientOption{InitAddress: addrs, Password: "s3cret", TLSConfig: s.TLSConfig()}, kit.CLI(s)))
}

// everyKind has a lock of each kind go through its life.
func everyKind(t *testing.T, p *kit.Platform) {
	t.Helper()
	t.Run(p.Name, func(t *testing.T) {
		t.Parallel()
		kit.ForKinds(t, func(t *testing.T, k *kit.Kind) { takeWaitRelease(t, p, k, kit.Fresh()) })
	})
}

func TestReplicated(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 1)
	for _, p := range both("replicated", []string{s.Primary.Addr()}, kit.CLI(s.Primary)) {
		everyKind(t, p)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	for _, p := range both("cluster", s.Addrs(), kit.OnCluster(s)) {
		p.Sharded = redistest.AtLeast(t, 7, 0)
		everyKind(t, p) // on several nodes
		t.Run(p.Name+"/tagged", func(t *testing.T) {
			t.Parallel()
			kit.ForKinds(t, func(t *testing.T, k *kit.Kind) { takeWaitRelease(t, p, k, "{tag}:"+kit.Fresh()) })
		})
	}
}

// Redisson announces releases with SPUBLISH on a cluster that knows it, and one
// who listens with SUBSCRIBE would not hear them.
func TestClusterAnnouncesWithSPublish(t *testing.T) {
	if !redistest.AtLeast(t, 7, 0) {
		t.Skip("sharded messages came with Redis 7.0")
	}
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	p := kit.GoRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, nil)
	name := kit.Fresh()
	h := kit.Must(t)(p.Client(t).NewMutex(name).Lock(background))
	done := waits(p.Client(t).NewMutex(name))
	kit.WaitFor(t, "the sharded subscription", func() bool {
		reply := s.NodeFor(t, name).Cli(t, "PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{"+name+"}")
		return !slices.Contains(kit.Lines(reply), "0") // the holder listens, too, if this takes more than a second
	})
	kit.Unlock(t, h)
	kit.OK(t, <-done)
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

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	do := func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return kit.Lines(s.Primary(t).Cli(t, args...))
	}
	platforms := []*kit.Platform{
		kit.GoRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
		kit.RueidisAt("sentinel", rueidis.ClientOption{
			InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
		}, do),
	}
	t.Run("before", func(t *testing.T) {
		for _, p := range platforms {
			everyKind(t, p)
		}
	})
	t.Run("failover", func(t *testing.T) { waitersRecover(t, s, platforms) })
}

// waitersRecover has one waiter a kind and client wait through a failover. Which
// owner the new primary knows is not promised, nor that a hold lasts which the old
// one granted meanwhile; that the waiters go on is.
func waitersRecover(t *testing.T, s *redistest.Sentinel, platforms []*kit.Platform) {
	t.Helper()
	var holds []*holdfast.Hold
	waiters := map[string]<-chan error{}
	holder := platforms[0].Client(t)
	for _, k := range kit.Kinds {
		name := platforms[0].Fresh(t, k)
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

// takeWaitRelease does what there is to do with one lock, by way of two clients.
func takeWaitRelease(t *testing.T, p *kit.Platform, k *kit.Kind, name string) {
	t.Helper()
	p.SetUp(t, k, name)
	a := p.Client(t, holdfast.WithLease(6*time.Second))
	b := p.Client(t)
	h := kit.Must(t)(k.Lock(a, name).Lock(background))
	p.WantCount(t, k, name, h.Owner(), 1)
	awaitRenewal(t, h)
	got := waits(k.Against(b, name))
	p.AwaitWaiter(t, k, name)
	kit.Unlock(t, h)
	kit.OK(t, <-got)
	kit.WaitFor(t, "the release", func() bool {
		return len(k.Left(p.Do(t, name, "KEYS", "*"+name+"*"), name)) == 0
	})
	kit.WaitFor(t, "the end of the subscription", func() bool { return !p.Listens(t, name) })
}

// awaitRenewal returns when a hold has been renewed, and fails if it is lost before.
func awaitRenewal(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	before := h.Deadline()
	kit.WaitFor(t, "a renewal", func() bool {
		if h.Context().Err() != nil {
			t.Fatalf("no renewal, but: %v", context.Cause(h.Context()))
		}
		return h.Deadline().After(before)
	})
}
