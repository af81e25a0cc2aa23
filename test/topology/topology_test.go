package topology

import (
	"context"
	"slices"
	"sync"
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
	for _, p := range []*kit.Platform{
		kit.GoRedis("tls", redis.UniversalOptions{
			Addrs: []string{s.Addr()}, Password: "s3cret", TLSConfig: s.TLSConfig(),
		}, kit.CLI(s)),
		kit.RueidisAt("tls", rueidis.ClientOption{
			InitAddress: []string{s.Addr()}, Password: "s3cret", TLSConfig: s.TLSConfig(),
		}, kit.CLI(s)),
	} {
		everyKind(t, p)
	}
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
	everyKind(t, kit.GoRedis("replicated", redis.UniversalOptions{Addrs: []string{s.Primary.Addr()}}, kit.CLI(s.Primary)))
	everyKind(t, kit.RueidisAt("replicated", rueidis.ClientOption{InitAddress: []string{s.Primary.Addr()}}, kit.CLI(s.Primary)))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	do := kit.OnCluster(s)
	for _, p := range []*kit.Platform{
		kit.GoRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
		kit.RueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do),
	} {
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := p.Client(t).NewMutex(name).Lock(background)
		if err != nil {
			t.Error(err)
			return
		}
		kit.Unlock(t, next)
	}()
	kit.WaitFor(t, "the sharded subscription", func() bool {
		reply := s.NodeFor(t, name).Cli(t, "PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{"+name+"}")
		return !slices.Contains(kit.Lines(reply), "0") // the holder listens, too, if this takes more than a second
	})
	kit.Unlock(t, h)
	<-done
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
// owner the new primary knows is not promised; that the waiters go on is.
func waitersRecover(t *testing.T, s *redistest.Sentinel, platforms []*kit.Platform) {
	t.Helper()
	var holds []*holdfast.Hold
	var waiters sync.WaitGroup
	holder := platforms[0].Client(t)
	for _, k := range kit.Kinds {
		name := platforms[0].Fresh(t, k)
		holds = append(holds, kit.Must(t)(k.Lock(holder, name).Lock(background)))
		for _, p := range platforms {
			l := k.Against(p.Client(t), name)
			waiters.Go(func() {
				next, err := l.Lock(background, holdfast.Wait(time.Minute))
				if err == nil {
					err = next.Unlock()
				}
				if err != nil {
					t.Errorf("%s, %s: %v", p.Name, k.Name, err)
				}
			})
		}
	}
	s.Failover(t)
	for _, h := range holds {
		if err := h.Unlock(); err != nil {
			t.Logf("the holder's unlock, after a failover: %v", err)
		}
	}
	waiters.Wait()
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
	got := make(chan time.Time, 1)
	go func() {
		next, err := k.Against(b, name).Lock(background)
		got <- time.Now()
		if err != nil {
			t.Error(err)
			return
		}
		kit.Unlock(t, next)
	}()
	p.AwaitWaiter(t, k, name)
	released := time.Now()
	kit.Unlock(t, h)
	if took := (<-got).Sub(released); took > kit.ByMessage {
		t.Errorf("the waiter got it after %v", took)
	}
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
