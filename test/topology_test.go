package test

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
)

// Each shape of server, through each client that reaches it: a lock is taken,
// waited for, handed over by message, renewed and released.

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("s3cret"))
	for _, p := range []*platform{
		goRedis("tls", redis.UniversalOptions{
			Addrs: []string{s.Addr()}, Password: "s3cret", TLSConfig: s.TLSConfig(),
		}, cli(s)),
		rueidisAt("tls", rueidis.ClientOption{
			InitAddress: []string{s.Addr()}, Password: "s3cret", TLSConfig: s.TLSConfig(),
		}, cli(s)),
	} {
		everyKind(t, p)
	}
}

// everyKind has a lock of each kind go through its life.
func everyKind(t *testing.T, p *platform) {
	t.Helper()
	t.Run(p.name, func(t *testing.T) {
		t.Parallel()
		forKinds(t, func(t *testing.T, k *kind) { takeWaitRelease(t, p, k, fresh()) })
	})
}

func TestReplicated(t *testing.T) {
	t.Parallel()
	s := redistest.StartReplicated(t, 1)
	everyKind(t, goRedis("replicated", redis.UniversalOptions{Addrs: []string{s.Primary.Addr()}}, cli(s.Primary)))
	everyKind(t, rueidisAt("replicated", rueidis.ClientOption{InitAddress: []string{s.Primary.Addr()}}, cli(s.Primary)))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	do := onCluster(s)
	for _, p := range []*platform{
		goRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
		rueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do),
	} {
		p.sharded = redistest.AtLeast(t, 7, 0)
		everyKind(t, p) // on several nodes
		t.Run(p.name+"/tagged", func(t *testing.T) {
			t.Parallel()
			forKinds(t, func(t *testing.T, k *kind) { takeWaitRelease(t, p, k, "{tag}:"+fresh()) })
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
	p := goRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, nil)
	name := fresh()
	h := must(t)(p.client(t).NewMutex(name).Lock(background))
	done := make(chan struct{})
	go func() {
		defer close(done)
		next, err := p.client(t).NewMutex(name).Lock(background)
		if err != nil {
			t.Error(err)
			return
		}
		unlock(t, next)
	}()
	waitFor(t, "the sharded subscription", func() bool {
		reply := s.NodeFor(t, name).Cli(t, "PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{"+name+"}")
		return !slices.Contains(lines(reply), "0") // the holder listens, too, if this takes more than a second
	})
	unlock(t, h)
	<-done
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	do := func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return lines(s.Primary(t).Cli(t, args...))
	}
	platforms := []*platform{
		goRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
		rueidisAt("sentinel", rueidis.ClientOption{
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
func waitersRecover(t *testing.T, s *redistest.Sentinel, platforms []*platform) {
	t.Helper()
	var holds []*holdfast.Hold
	var waiters sync.WaitGroup
	holder := platforms[0].client(t)
	for _, k := range kinds {
		name := platforms[0].fresh(t, k)
		holds = append(holds, must(t)(k.lock(holder, name).Lock(background)))
		for _, p := range platforms {
			l := k.against(p.client(t), name)
			waiters.Go(func() {
				next, err := l.Lock(background, holdfast.Wait(time.Minute))
				if err == nil {
					err = next.Unlock()
				}
				if err != nil {
					t.Errorf("%s, %s: %v", p.name, k.name, err)
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
func takeWaitRelease(t *testing.T, p *platform, k *kind, name string) {
	t.Helper()
	p.setUp(t, k, name)
	a := p.client(t, holdfast.WithLease(6*time.Second))
	b := p.client(t)
	h := must(t)(k.lock(a, name).Lock(background))
	p.wantCount(t, k, name, h.Owner(), 1)
	awaitRenewal(t, h)
	got := make(chan time.Time, 1)
	go func() {
		next, err := k.against(b, name).Lock(background)
		got <- time.Now()
		if err != nil {
			t.Error(err)
			return
		}
		unlock(t, next)
	}()
	p.awaitWaiter(t, k, name)
	released := time.Now()
	unlock(t, h)
	if took := (<-got).Sub(released); took > byMessage {
		t.Errorf("the waiter got it after %v", took)
	}
	waitFor(t, "the release", func() bool {
		return len(k.left(p.do(t, name, "KEYS", "*"+name+"*"), name)) == 0
	})
	waitFor(t, "the end of the subscription", func() bool { return !p.listens(t, name) })
}

// awaitRenewal returns when a hold has been renewed, and fails if it is lost before.
func awaitRenewal(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	before := h.Deadline()
	waitFor(t, "a renewal", func() bool {
		if h.Context().Err() != nil {
			t.Fatalf("no renewal, but: %v", context.Cause(h.Context()))
		}
		return h.Deadline().After(before)
	})
}
