package servers

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Multi-locks, on every driver, in real time.
func TestMultiLock(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){
		"AllOrNone":          multiAllOrNone,
		"L18_OppositeOrders": oppositeOrders,
	})
}

// On a cluster, with locks of several slots and of one.
func TestMultiLockOnACluster(t *testing.T) {
	onClusters(t, func(t *testing.T, p *kit.Platform) {
		multiAllOrNone(t, p)
		tag := kit.Fresh()
		tagged := []string{"{" + tag + "}:a", "{" + tag + "}:b"}
		h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(p.Client(t), tagged...)...).Lock(background))
		for _, name := range tagged {
			wantReply(t, p, name, "1", "HGET", name, h.Owner().String())
		}
		kit.Unlock(t, h)
		oppositeOrders(t, p)
	})
}

func freshNames(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = kit.Fresh()
	}
	slices.Sort(all) // as a multi-lock does
	return all
}

func multiAllOrNone(t *testing.T, p *kit.Platform) {
	names := freshNames(3)
	c, other := p.Client(t), p.Client(t)
	m := holdfast.NewMultiLock(kit.Mutexes(c, names...)...)
	h := kit.Must(t)(m.Lock(background))
	for _, name := range names {
		wantReply(t, p, name, h.Owner().String()+" 1", "HGETALL", name)
	}
	kit.OK(t, h.Extend(background, time.Hour))
	if left := time.Until(h.Deadline()); left > time.Hour || left < 50*time.Minute {
		t.Errorf("deadline in %v", left)
	}
	in := kit.Must(t)(m.Lock(h.Context()))
	wantReply(t, p, names[0], "2", "HGET", names[0], h.Owner().String())
	kit.Unlock(t, in)
	_, err := other.NewMutex(names[1]).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)
	h = kit.Must(t)(other.NewMutex(names[2]).Lock(background))
	_, err = m.TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.Name != names[2] || locked.Holder != h.Owner() {
		t.Errorf("%v", err)
	}
	_, err = m.Lock(background, holdfast.Wait(time.Second), holdfast.FixedLease(time.Minute))
	kit.WantError(t, err, holdfast.ErrLocked)
	for _, name := range names[:2] {
		kit.WaitFor(t, "the release", func() bool { return p.Do(t, name, "EXISTS", name)[0] == "0" })
	}
	kit.Unlock(t, h)
}

// guard finds holds that overlap.
type guard struct{ inside sync.Map }

func (g *guard) enter(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		n, _ := g.inside.LoadOrStore(name, new(atomic.Int32))
		if n.(*atomic.Int32).Add(1) > 1 {
			t.Errorf("two holders of %q", name)
		}
	}
}

func (g *guard) leave(names ...string) {
	for _, name := range names {
		n, _ := g.inside.Load(name)
		n.(*atomic.Int32).Add(-1)
	}
}

// L18: many want the same locks, in any order, alone and together; all come to
// an end, and no two of them hold one lock.
func oppositeOrders(t *testing.T, p *kit.Platform) {
	names := freshNames(4)
	var g guard
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	for i := range 3 {
		c := p.Client(t)
		for j := range 3 {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				for range 12 {
					mine := slices.Clone(names)
					rng.Shuffle(len(mine), func(x, y int) { mine[x], mine[y] = mine[y], mine[x] })
					mine = mine[:1+rng.IntN(len(mine))]
					h, err := holdfast.NewMultiLock(kit.Mutexes(c, mine...)...).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					g.enter(t, mine...)
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
					g.leave(mine...)
					kit.Unlock(t, h)
				}
			})
		}
	}
	group.Wait()
}

// Two servers, one dies: the hold is lost, in time, and what is on the other is
// given back.
func TestMultiLockOnTwoServers(t *testing.T) {
	t.Parallel()
	s := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	lease := holdfast.WithLease(2 * time.Second)
	a := kit.GoRedis("a", redis.UniversalOptions{Addrs: []string{s[0].Addr()}}, kit.CLI(s[0]))
	b := kit.RueidisAt("b", rueidis.ClientOption{InitAddress: []string{s[1].Addr()}}, kit.CLI(s[1]))
	b.Dead = func() bool { return !s[1].Running() }
	m := holdfast.NewMultiLock(a.Client(t, lease).NewMutex("a"), b.Client(t, lease, holdfast.WithTimeout(time.Second)).NewMutex("b"))
	h := kit.Must(t)(m.Lock(background))
	s[1].Kill()
	<-h.Context().Done()
	kit.WantLost(t, h)
	wantReply(t, a, "a", "1", "HGET", "a", h.Parts()[0].Owner().String())
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	wantFree(t, a, "a")
	_, err := m.Lock(background)
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || failed.Name != "b" {
		t.Errorf("%v", err)
	}
	wantFree(t, a, "a")
}

// fleet is several real servers.
type fleet []*redistest.Server

func startFleet(t *testing.T, n int) fleet {
	t.Helper()
	t.Parallel()
	f := make(fleet, n)
	var group sync.WaitGroup
	for i := range f {
		group.Go(func() { f[i] = redistest.Start(t) })
	}
	group.Wait()
	return f
}

// redlock returns a RedLock named x of clients of its own, through both adapters.
func (f fleet) redlock(t *testing.T, options ...holdfast.ClientOption) *holdfast.MultiLock {
	t.Helper()
	var lockers []holdfast.Locker
	for i, s := range f {
		p := kit.GoRedis("", redis.UniversalOptions{Addrs: []string{s.Addr()}, MaxRetries: -1}, nil)
		if i%2 == 1 {
			p = kit.RueidisAt("", rueidis.ClientOption{InitAddress: []string{s.Addr()}}, nil)
		}
		p.Dead = func() bool { return !s.Running() }
		lockers = append(lockers, p.Client(t, options...).NewMutex("x"))
	}
	return holdfast.NewRedLock(lockers...)
}

// on counts on how many servers the lock is held.
func (f fleet) on(t *testing.T) (n int) {
	t.Helper()
	for _, s := range f {
		if s.Cli(t, "EXISTS", "x") == "1" {
			n++
		}
	}
	return n
}

// awaitOn returns when the lock is held on so many servers.
func (f fleet) awaitOn(t *testing.T, n int) {
	t.Helper()
	kit.WaitFor(t, "the lock to be held on as many servers as it is to be", func() bool { return f.on(t) == n })
}

func TestRedLockOnFiveServers(t *testing.T) {
	f := startFleet(t, 5)
	timeout := holdfast.WithTimeout(3 * time.Second)
	r, other := f.redlock(t, timeout), f.redlock(t, timeout)
	h := kit.Must(t)(r.Lock(background))
	f.awaitOn(t, 5)
	kit.Unlock(t, h)
	if n := f.on(t); n != 0 {
		t.Errorf("left on %d servers", n)
	}

	f[0].Stop()
	f[1].Stop()
	h = kit.Must(t)(r.Lock(background))
	_, err := other.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)

	f[2].Stop()
	_, err = r.TryLock(background)
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "2 of 5") {
		t.Errorf("%v", err)
	}
	f[3:].awaitOn(t, 0)
	for _, s := range f[:3] {
		s.Cont()
	}
	f.awaitOn(t, 0)
	kit.Unlock(t, kit.Must(t)(r.Lock(background)))
}

// Three of five die while the lock is held: the hold ends while the two that are
// left still keep others from a quorum.
func TestRedLockLosesItsQuorum(t *testing.T) {
	f := startFleet(t, 5)
	h := kit.Must(t)(f.redlock(t, holdfast.WithLease(6*time.Second), holdfast.WithTimeout(5*time.Second)).Lock(background))
	f.awaitOn(t, 5)
	f[0].Kill()
	f[1].Kill()
	time.Sleep(7 * time.Second) // more than a lease
	if h.Context().Err() != nil {
		t.Fatalf("lost with three servers: %v", context.Cause(h.Context()))
	}
	f[2].Kill()
	<-h.Context().Done()
	kit.WantLost(t, h)
	if n := f[3:].on(t); n != 2 {
		t.Errorf("held on %d servers when the loss was told", n)
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	f[3:].awaitOn(t, 0)
}

// Several processes contend for one RedLock while a server is stopped and goes
// on: no two holds overlap.
func TestRedLockHoldsDoNotOverlap(t *testing.T) {
	f := startFleet(t, 3)
	var g guard
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(background, 60*time.Second)
	defer cancel()
	for range 4 {
		// Longer than the server is stopped: a hold that stands on this one and one
		// other is given back on a quorum only when it goes on.
		r := f.redlock(t, holdfast.WithTimeout(3*time.Second))
		for range 2 {
			group.Go(func() {
				for range 8 {
					h, err := r.Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					g.enter(t, "x")
					time.Sleep(time.Millisecond)
					g.leave("x")
					kit.Unlock(t, h)
				}
			})
		}
	}
	time.Sleep(200 * time.Millisecond)
	f[1].Stop()
	time.Sleep(time.Second)
	f[1].Cont()
	group.Wait()
	f.awaitOn(t, 0)
}

// The smallest rights that a multi-lock of plain mutexes needs are those of its
// mutexes.
func TestMultiLockNeedsNoFurtherRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	user := kit.Fresh()
	p := kit.Limited(t, s, "go-redis", user, kit.PlainRights.And(kit.ClientRights["go-redis"]).Rules("lk:*"))
	m := holdfast.NewMultiLock(kit.Mutexes(p.Client(t), "lk:a", "lk:b")...)
	h := kit.Must(t)(m.Lock(background))
	got := waiting(t, p, holdfast.NewMultiLock(kit.Mutexes(p.Client(t), "lk:b", "lk:a")...), m)
	kit.OK(t, h.Extend(background, time.Minute))
	kit.Unlock(t, h)
	h = <-got
	_, err := m.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)
	kit.WaitFor(t, "the release", func() bool { return s.Cli(t, "EXISTS", "lk:a", "lk:b") == "0" })
}
