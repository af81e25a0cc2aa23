package test

import (
	"slices"
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
	s := redistest.Start(t, redistest.WithTLS(), redistest.WithPassword("s3cret"))
	for _, p := range []*place{
		goRedis("tls", redis.UniversalOptions{
			Addrs: []string{s.Addr()}, Password: "s3cret", TLSConfig: s.TLSConfig(),
		}, cli(s)),
		rueidisAt("tls", rueidis.ClientOption{
			InitAddress: []string{s.Addr()}, Password: "s3cret", TLSConfig: s.TLSConfig(),
		}, cli(s)),
	} {
		t.Run(p.name, func(t *testing.T) { takeWaitRelease(t, p, fresh()) })
	}
}

func TestCluster(t *testing.T) {
	s := redistest.StartCluster(t, 3, 0)
	do := func(t *testing.T, key string, args ...string) []string {
		t.Helper()
		return lines(s.NodeFor(t, key).Cli(t, args...))
	}
	for _, p := range []*place{
		goRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
		rueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do),
	} {
		t.Run(p.name, func(t *testing.T) {
			for range 5 { // on several nodes
				takeWaitRelease(t, p, fresh())
			}
			takeWaitRelease(t, p, "{tag}:"+fresh())
		})
	}
}

// Redisson announces releases with SPUBLISH on a cluster that knows it, and one
// who listens with SUBSCRIBE would not hear them.
func TestClusterAnnouncesWithSPublish(t *testing.T) {
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
		return slices.Contains(lines(reply), "1")
	})
	unlock(t, h)
	<-done
}

func TestSentinel(t *testing.T) {
	s := redistest.StartSentinel(t, 1, 3)
	do := func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return lines(s.Primary(t).Cli(t, args...))
	}
	places := []*place{
		goRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
		rueidisAt("sentinel", rueidis.ClientOption{
			InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
		}, do),
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { takeWaitRelease(t, p, fresh()) })
	}
	t.Run("failover", func(t *testing.T) { waitersRecover(t, s, places) })
}

// waitersRecover has one waiter a client wait through a failover. Which owner
// the new primary knows is not promised; that the waiters go on is.
func waitersRecover(t *testing.T, s *redistest.Sentinel, places []*place) {
	name := fresh()
	h := must(t)(places[0].client(t).NewMutex(name).Lock(background))
	done := make(chan error, len(places))
	for _, p := range places {
		c := p.client(t)
		go func() {
			next, err := c.NewMutex(name).Lock(background, holdfast.Wait(time.Minute))
			if err == nil {
				err = next.Unlock()
			}
			done <- err
		}()
	}
	s.Failover(t)
	if err := h.Unlock(); err != nil {
		t.Logf("the holder's unlock, after a failover: %v", err)
	}
	for range places {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func takeWaitRelease(t *testing.T, p *place, name string) {
	t.Helper()
	a := p.client(t, holdfast.WithLease(2*time.Second))
	b := p.client(t)
	h := must(t)(a.NewMutex(name).Lock(background))
	if got, want := p.do(t, name, "HGETALL", name), []string{h.Owner().String(), "1"}; !slices.Equal(got, want) {
		t.Errorf("HGETALL %v, want %v", got, want)
	}
	before := h.Deadline()
	waitFor(t, "a renewal", func() bool { return h.Deadline().After(before) })
	got := make(chan time.Time, 1)
	go func() {
		next, err := b.NewMutex(name).Lock(background)
		got <- time.Now()
		if err != nil {
			t.Error(err)
			return
		}
		unlock(t, next)
	}()
	waitFor(t, "the waiter", func() bool { return subscribers(t, p, name) > 0 })
	released := time.Now()
	unlock(t, h)
	if took := (<-got).Sub(released); took > 500*time.Millisecond {
		t.Errorf("the waiter got it after %v", took)
	}
	waitFor(t, "the release", func() bool { return slices.Equal(p.do(t, name, "EXISTS", name), []string{"0"}) })
	waitFor(t, "the end of the subscription", func() bool { return subscribers(t, p, name) == 0 })
}

// subscribers counts who listens on a lock's channel, in either way.
func subscribers(t *testing.T, p *place, name string) (n int) {
	t.Helper()
	channel := "redisson_lock__channel:{" + name + "}"
	if name[0] == '{' {
		channel = "redisson_lock__channel:" + name
	}
	for _, ask := range []string{"NUMSUB", "SHARDNUMSUB"} {
		if slices.Contains(p.do(t, name, "PUBSUB", ask, channel), "1") {
			n++
		}
	}
	return n
}
