package servers

import (
	"context"
	"errors"
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

// The fair lock on every driver, in real time.
func TestFair(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){
		"OnTheWire":         fairOnTheWire,
		"ReentrancyOptions": fairOptions,
		"HandOver":          fairHandOver,
		"ForceUnlock":       fairForceUnlock,
		"HoldsDoNotOverlap": fairHoldsDoNotOverlap,
		"Leaving":           fairLeaving,
	})
}

func lineOf(t *testing.T, p *kit.Platform, name string) []string {
	t.Helper()
	return p.Do(t, name, "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1")
}

// awaitNumber returns when a waiter has asked with a number, so that it can be granted the lock.
func awaitNumber(t *testing.T, p *kit.Platform, name, owner string) {
	t.Helper()
	kit.WaitFor(t, "its number", func() bool { return slices.Contains(p.Do(t, name, "HKEYS", "holdfast_asks:{"+name+"}"), owner) })
}

// queued has one wait for a fair lock, and returns when it stands in line.
func queued(t *testing.T, p *kit.Platform, name string, options ...holdfast.AnyMutexOption) (owner holdfast.Owner, got chan *holdfast.Hold) {
	t.Helper()
	c := p.Client(t)
	owner, got = c.NewOwner(), make(chan *holdfast.Hold, 1)
	go func() {
		defer close(got)
		h, err := c.NewFairMutex(name, options...).Lock(holdfast.WithOwner(background, owner))
		if err != nil {
			t.Error(err)
			return
		}
		got <- h
	}()
	kit.WaitFor(t, "its place in line", func() bool { return slices.Contains(lineOf(t, p, name), owner.String()) })
	return owner, got
}

// What stands in Redis is what Redisson puts there, with one key more.
func fairOnTheWire(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	h := kit.Must(t)(c.NewFairMutex(name).Lock(background))
	if got, want := p.Do(t, name, "HGETALL", name), []string{h.Owner().String(), "1"}; !slices.Equal(got, want) {
		t.Errorf("HGETALL %v, want %v", got, want)
	}
	a, gotA := queued(t, p, name)
	b, gotB := queued(t, p, name)
	want := []string{a.String(), b.String()}
	if got := lineOf(t, p, name); !slices.Equal(got, want) {
		t.Errorf("the line %v, want %v", got, want)
	}
	for _, owner := range want {
		if got := p.Do(t, name, "ZSCORE", "redisson_lock_timeout:{"+name+"}", owner); len(got) != 1 || len(got[0]) != 13 {
			t.Errorf("score %v", got)
		}
		awaitNumber(t, p, name, owner)
		kit.WaitFor(t, "the end of its own subscription", func() bool {
			return slices.Contains(p.Do(t, name, "PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}:"+owner), "0")
		})
	}
	if got := p.Do(t, name, "TYPE", "holdfast_lock_waiting:{"+name+"}"); !slices.Equal(got, []string{"zset"}) {
		t.Errorf("the heartbeats are a %v", got)
	}
	kit.Unlock(t, h)
	kit.Unlock(t, <-gotA)
	kit.Unlock(t, <-gotB)
	if got := p.Do(t, name, "KEYS", "*{"+name+"}*"); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

func fairOptions(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	mu := c.NewFairMutex(name, holdfast.Fenced(holdfast.TokenTTL(time.Minute)))
	outer := kit.Must(t)(mu.Lock(background))
	_, got := queued(t, p, name, holdfast.Fenced())
	inner := kit.Must(t)(mu.Lock(outer.Context())) // does not stand in line, or it would wait for itself
	if inner.Token() != outer.Token() || outer.Token() == 0 {
		t.Errorf("tokens %d and %d", outer.Token(), inner.Token())
	}
	if got := p.Do(t, name, "HGET", name, outer.Owner().String()); !slices.Equal(got, []string{"2"}) {
		t.Errorf("count %v", got)
	}
	_, err := c.NewFairMutex(name, holdfast.NonReentrant()).Lock(outer.Context())
	kit.WantError(t, err, holdfast.ErrReentrant)
	kit.Unlock(t, inner)
	kit.Unlock(t, outer)
	next := <-got
	if next.Token() <= outer.Token() {
		t.Errorf("token %d after %d", next.Token(), outer.Token())
	}
	kit.Unlock(t, next)
}

func fairHandOver(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
	owner, got := queued(t, p, name)
	awaitNumber(t, p, name, owner.String())
	released := time.Now()
	kit.Unlock(t, h)
	next := <-got
	if took := time.Since(released); took > kit.ByMessage {
		t.Errorf("it got it after %v", took)
	}
	kit.Unlock(t, next)
}

func fairForceUnlock(t *testing.T, p *kit.Platform) {
	c, name := p.Client(t), kit.Fresh()
	h := kit.Must(t)(c.NewFairMutex(name).Lock(background))
	_, got := queued(t, p, name)
	kit.WaitFor(t, "the holder's subscription", func() bool {
		return slices.Contains(p.Do(t, name, "PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}:"+h.Owner().String()), "1")
	})
	was, err := p.Client(t).NewFairMutex(name).ForceUnlock(background)
	if err != nil || !was {
		t.Fatalf("ForceUnlock: %v, %v", was, err)
	}
	forced := time.Now()
	<-h.Context().Done()
	if took := time.Since(forced); took > kit.ByMessage || !errors.Is(context.Cause(h.Context()), holdfast.ErrLost) {
		t.Errorf("the holder knows after %v: %v", took, context.Cause(h.Context()))
	}
	next := <-got
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
	if locked, err := kit.IsLocked(c.NewFairMutex(name)); err != nil || !locked {
		t.Errorf("the next holder's lock went with it: %v, %v", locked, err)
	}
	kit.Unlock(t, next)
}

func fairHoldsDoNotOverlap(t *testing.T, p *kit.Platform) {
	type span struct{ from, to time.Time }
	var mu sync.Mutex
	var spans []span
	var wg sync.WaitGroup
	name := kit.Fresh()
	for range 4 {
		c := p.Client(t)
		for i := range 4 {
			wg.Go(func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(background, 30*time.Second)
					if i == 0 { // some do not wait long
						ctx, cancel = context.WithTimeout(background, 3*time.Millisecond)
					}
					h, err := c.NewFairMutex(name).Lock(ctx)
					if err == nil {
						s := span{from: time.Now()}
						time.Sleep(200 * time.Microsecond) // the work
						s.to = time.Now()
						kit.Unlock(t, h)
						mu.Lock()
						spans = append(spans, s)
						mu.Unlock()
					} else if i > 0 || !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	if len(spans) < 120 {
		t.Fatalf("%d holds", len(spans))
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from.Before(spans[i-1].to) {
			t.Errorf("hold %d began %v before the one before it ended", i, spans[i-1].to.Sub(spans[i].from))
		}
	}
	kit.WaitFor(t, "the end of the line", func() bool { return len(p.Do(t, name, "KEYS", "*{"+name+"}*")) == 0 })
}

// L6, in real time.
func fairLeaving(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
	c := p.Client(t)
	ctx, cancel := context.WithCancel(background)
	left := make(chan error)
	go func() {
		_, err := c.NewFairMutex(name).Lock(ctx)
		left <- err
	}()
	kit.WaitFor(t, "its place in line", func() bool { return len(lineOf(t, p, name)) == 1 })
	_, got := queued(t, p, name)
	cancel()
	kit.WantError(t, <-left, context.Canceled)
	kit.WaitFor(t, "the end of its place", func() bool { return len(lineOf(t, p, name)) == 1 })
	start := time.Now()
	kit.Unlock(t, h)
	kit.Unlock(t, <-got)
	if took := time.Since(start); took > kit.ByMessage {
		t.Errorf("the next one got it after %v", took)
	}
}

// Each shape of server, one after the other in line.
func TestFairTopologies(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		s := redistest.StartCluster(t, 3, 0)
		do := kit.OnCluster(s)
		fairPlatforms(t, kit.GoRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
			kit.RueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do))
	})
	t.Run("sentinel", func(t *testing.T) {
		s := redistest.StartSentinel(t, 1, 3)
		do := func(t *testing.T, _ string, args ...string) []string {
			t.Helper()
			return kit.Lines(s.Primary(t).Cli(t, args...))
		}
		fairPlatforms(t, kit.GoRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
			kit.RueidisAt("sentinel", rueidis.ClientOption{
				InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
			}, do))
	})
}

func fairPlatforms(t *testing.T, platforms ...*kit.Platform) {
	t.Helper()
	for _, p := range platforms {
		t.Run(p.Name, func(t *testing.T) {
			for range 4 { // on several nodes
				name := kit.Fresh()
				h := kit.Must(t)(p.Client(t).NewFairMutex(name, holdfast.Fenced()).Lock(background))
				_, gotA := queued(t, p, name)
				_, gotB := queued(t, p, name)
				start := time.Now()
				kit.Unlock(t, h)
				a := <-gotA
				select {
				case <-gotB:
					t.Error("the second came first")
				default:
				}
				kit.Unlock(t, a)
				kit.Unlock(t, <-gotB)
				if took := time.Since(start); took > kit.ByMessage {
					t.Errorf("both had it after %v", took)
				}
				kit.WaitFor(t, "the end of the line", func() bool { return len(lineOf(t, p, name)) == 0 })
			}
		})
	}
}
