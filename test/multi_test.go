package test

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
)

// Multi-locks, on every driver, in real time.
func TestMultiLock(t *testing.T) {
	onEveryDriver(t, map[string]func(*testing.T, *platform){
		"AllOrNone":          multiAllOrNone,
		"PartsOfManyKinds":   multiOfManyKinds,
		"WaitsForEach":       multiWaitsForEach,
		"L18_OppositeOrders": oppositeOrders,
	})
}

func freshNames(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fresh()
	}
	slices.Sort(all) // as a multi-lock does
	return all
}

func multiAllOrNone(t *testing.T, p *platform) {
	names := freshNames(3)
	c, other := p.client(t), p.client(t)
	m := holdfast.NewMultiLock(mutexes(c, names...)...)
	h := must(t)(m.Lock(background))
	for _, name := range names {
		if got, want := p.do(t, name, "HGETALL", name), []string{h.Owner().String(), "1"}; !slices.Equal(got, want) {
			t.Errorf("HGETALL %v, want %v", got, want)
		}
	}
	in := must(t)(m.Lock(h.Context()))
	if got := p.do(t, names[0], "HGET", names[0], h.Owner().String()); !slices.Equal(got, []string{"2"}) {
		t.Errorf("count %v", got)
	}
	unlock(t, in)
	_, err := other.NewMutex(names[1]).TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, h)
	h = must(t)(other.NewMutex(names[2]).Lock(background))
	_, err = m.TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) || locked.Name != names[2] || locked.Holder != h.Owner() {
		t.Errorf("%v", err)
	}
	_, err = m.Lock(background, holdfast.Wait(time.Second), holdfast.FixedLease(time.Minute))
	wantError(t, err, holdfast.ErrLocked)
	for _, name := range names[:2] {
		waitFor(t, "the release", func() bool { return slices.Equal(p.do(t, name, "EXISTS", name), []string{"0"}) })
	}
	unlock(t, h)
}

func multiOfManyKinds(t *testing.T, p *platform) {
	names := freshNames(3)
	c, other := p.client(t), p.client(t)
	m := holdfast.NewMultiLock(c.NewMutex(names[0], holdfast.Fenced()), other.NewMutex(names[1]),
		c.NewMutex(names[2], holdfast.NonReentrant()), c.NewMutex(names[2]))
	h := must(t)(m.Lock(background, holdfast.FixedLease(10*time.Second)))
	if got := len(h.Parts()); got != 3 {
		t.Errorf("%d parts", got)
	}
	if token := h.Parts()[0].Token(); token == 0 || h.Token() != 0 {
		t.Errorf("tokens %d, %d", token, h.Token())
	}
	if left := time.Until(h.Deadline()); left > 10*time.Second || left < 8*time.Second {
		t.Errorf("deadline in %v", left)
	}
	if err := h.Extend(background, time.Minute); err != nil {
		t.Error(err)
	}
	if left := time.Until(h.Deadline()); left < 50*time.Second {
		t.Errorf("deadline in %v", left)
	}
	_, err := m.Lock(h.Context())
	wantError(t, err, holdfast.ErrReentrant)
	if got := p.do(t, names[0], "HGET", names[0], h.Parts()[0].Owner().String()); !slices.Equal(got, []string{"1"}) {
		t.Errorf("count %v", got)
	}
	unlock(t, h)
}

func multiWaitsForEach(t *testing.T, p *platform) {
	names := freshNames(3)
	c, other := p.client(t), p.client(t)
	var holds []*holdfast.Hold
	for _, name := range names {
		holds = append(holds, must(t)(other.NewMutex(name).Lock(background)))
	}
	got := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := holdfast.NewMultiLock(mutexes(c, names...)...).Lock(background)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	for i, name := range names {
		waitFor(t, "the waiter", func() bool { return p.standing(t, name) == 1 })
		if len(got) > 0 {
			t.Errorf("acquired with %d held by another", len(names)-i)
		}
		unlock(t, holds[i])
	}
	if h := <-got; h != nil {
		unlock(t, h)
	}
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
func oppositeOrders(t *testing.T, p *platform) {
	names := freshNames(4)
	var g guard
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	for i := range 3 {
		c := p.client(t)
		for j := range 3 {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				for range 12 {
					mine := slices.Clone(names)
					rng.Shuffle(len(mine), func(x, y int) { mine[x], mine[y] = mine[y], mine[x] })
					mine = mine[:1+rng.IntN(len(mine))]
					h, err := holdfast.NewMultiLock(mutexes(c, mine...)...).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					g.enter(t, mine...)
					time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
					g.leave(mine...)
					unlock(t, h)
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
	a := goRedis("a", redis.UniversalOptions{Addrs: []string{s[0].Addr()}}, cli(s[0]))
	b := rueidisAt("b", rueidis.ClientOption{InitAddress: []string{s[1].Addr()}}, cli(s[1]))
	b.dead = func() bool { return !s[1].Running() }
	x, y := a.client(t, lease), b.client(t, lease, holdfast.WithTimeout(time.Second))
	h := must(t)(holdfast.NewMultiLock(x.NewMutex("a"), y.NewMutex("b")).Lock(background))
	s[1].Kill()
	<-h.Context().Done()
	wantLost(t, h)
	if got := a.do(t, "a", "HGET", "a", h.Parts()[0].Owner().String()); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the other: %v", got)
	}
	wantError(t, h.Unlock(), holdfast.ErrLost)
	if got := a.do(t, "a", "EXISTS", "a"); !slices.Equal(got, []string{"0"}) {
		t.Errorf("the other: %v", got)
	}
	start := time.Now()
	_, err := holdfast.NewMultiLock(x.NewMutex("a"), y.NewMutex("b")).Lock(background)
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || failed.Name != "b" {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if got := a.do(t, "a", "EXISTS", "a"); !slices.Equal(got, []string{"0"}) {
		t.Errorf("the other: %v", got)
	}
}

// On a cluster, with locks of one slot and of several.
func TestMultiLockOnACluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	do := onCluster(s)
	for _, p := range []*platform{
		goRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
		rueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do),
	} {
		p.sharded = redistest.AtLeast(t, 7, 0)
		t.Run(p.name, func(t *testing.T) {
			multiAllOrNone(t, p)
			multiOfManyKinds(t, p)
			tag := fresh()
			tagged := []string{"{" + tag + "}:a", "{" + tag + "}:b"}
			h := must(t)(holdfast.NewMultiLock(mutexes(p.client(t), tagged...)...).Lock(background))
			for _, name := range tagged {
				if got := p.do(t, name, "HGET", name, h.Owner().String()); !slices.Equal(got, []string{"1"}) {
					t.Errorf("count %v", got)
				}
			}
			unlock(t, h)
			oppositeOrders(t, p)
		})
	}
}

func TestMultiLockOnSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	do := func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return lines(s.Primary(t).Cli(t, args...))
	}
	for _, p := range []*platform{
		goRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
		rueidisAt("sentinel", rueidis.ClientOption{
			InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
		}, do),
	} {
		t.Run(p.name, func(t *testing.T) {
			multiAllOrNone(t, p)
			multiWaitsForEach(t, p)
		})
	}
}

// fleet is several real servers.
type fleet []*redistest.Server

func startFleet(t *testing.T, n int) fleet {
	t.Helper()
	f := make(fleet, n)
	var group sync.WaitGroup
	for i := range f {
		group.Go(func() { f[i] = redistest.Start(t) })
	}
	group.Wait()
	return f
}

// redlock returns a RedLock of clients of its own, through both adapters.
func (f fleet) redlock(t *testing.T, name string, options ...holdfast.ClientOption) *holdfast.MultiLock {
	t.Helper()
	var lockers []holdfast.Locker
	for i, s := range f {
		p := goRedis("", redis.UniversalOptions{Addrs: []string{s.Addr()}, MaxRetries: -1}, nil)
		if i%2 == 1 {
			p = rueidisAt("", rueidis.ClientOption{InitAddress: []string{s.Addr()}}, nil)
		}
		p.dead = func() bool { return !s.Running() }
		lockers = append(lockers, p.client(t, options...).NewMutex(name))
	}
	return holdfast.NewRedLock(lockers...)
}

// on counts on how many servers the lock is held.
func (f fleet) on(t *testing.T, name string) (n int) {
	t.Helper()
	for _, s := range f {
		if strings.TrimSpace(s.Cli(t, "EXISTS", name)) == "1" {
			n++
		}
	}
	return n
}

func TestRedLockOnFiveServers(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 5)
	timeout := holdfast.WithTimeout(3 * time.Second)
	r, other := f.redlock(t, "x", timeout), f.redlock(t, "x", timeout)
	h := must(t)(r.Lock(background))
	waitFor(t, "the other servers", func() bool { return f.on(t, "x") == 5 })
	unlock(t, h)
	if n := f.on(t, "x"); n != 0 {
		t.Errorf("left on %d servers", n)
	}

	f[0].Stop()
	f[1].Stop()
	start := time.Now()
	h = must(t)(r.Lock(background))
	if took := time.Since(start); took > 5*time.Second { // the timeout is 6 s
		t.Errorf("had after %v, with two servers stopped", took)
	}
	_, err := other.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, h)

	f[2].Stop()
	start = time.Now()
	_, err = r.TryLock(background)
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "2 of 5") {
		t.Errorf("%v", err)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("took %v, with three servers stopped", took)
	}
	waitFor(t, "the servers that answer", func() bool { return f[3:].on(t, "x") == 0 })
	for _, s := range f[:3] {
		s.Cont()
	}
	waitFor(t, "the servers that were stopped", func() bool { return f.on(t, "x") == 0 })
	unlock(t, must(t)(r.Lock(background)))
}

// Three of five die while the lock is held: the hold ends while the two that are
// left still keep others from a quorum.
func TestRedLockLosesItsQuorum(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 5)
	h := must(t)(f.redlock(t, "x", holdfast.WithLease(6*time.Second), holdfast.WithTimeout(5*time.Second)).Lock(background))
	waitFor(t, "the other servers", func() bool { return f.on(t, "x") == 5 })
	for _, s := range f[:2] {
		s.Kill()
	}
	time.Sleep(7 * time.Second) // more than a lease
	if h.Context().Err() != nil {
		t.Fatalf("lost with three servers: %v", context.Cause(h.Context()))
	}
	f[2].Kill()
	time.Sleep(6 * time.Second) // a machine that stands still holds up this, too
	select {
	case <-h.Context().Done():
	case <-time.After(2 * time.Second):
		t.Error("it is not lost after a lease")
	}
	wantLost(t, h)
	if n := f[3:].on(t, "x"); n != 2 {
		t.Errorf("held on %d servers when the loss was told", n)
	}
	wantError(t, h.Unlock(), holdfast.ErrLost)
	waitFor(t, "the release", func() bool { return f[3:].on(t, "x") == 0 })
}

// Several processes contend for one RedLock while a server is stopped and goes
// on: no two holds overlap.
func TestRedLockHoldsDoNotOverlap(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	var g guard
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(background, 60*time.Second)
	defer cancel()
	for range 4 {
		// Longer than the server is stopped: a hold that stands on this one and one
		// other is given back on a quorum only when it goes on.
		r := f.redlock(t, "x", holdfast.WithTimeout(3*time.Second))
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
					unlock(t, h)
				}
			})
		}
	}
	time.Sleep(200 * time.Millisecond)
	f[1].Stop()
	time.Sleep(time.Second)
	f[1].Cont()
	group.Wait()
	waitFor(t, "the release", func() bool { return f.on(t, "x") == 0 })
}

// The smallest rights that a multi-lock of plain mutexes needs are those of its
// mutexes.
func TestMultiLockNeedsNoFurtherRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Cli(t, known(t, strings.Fields("ACL SETUSER limited on >pw ~lk:* ~redisson_lock__channel:{lk:* resetchannels "+
		"&redisson_lock__channel:{lk:* -@all +eval +evalsha +script|load "+
		"+time +exists +hget +hgetall +hset +hkeys +pttl +pexpire +del +publish +subscribe +unsubscribe"))...)
	p := goRedis("limited", redis.UniversalOptions{Addrs: []string{s.Addr()}, Username: "limited", Password: "pw"}, cli(s))
	c, other := p.client(t), p.client(t)
	m := holdfast.NewMultiLock(mutexes(c, "lk:a", "lk:b")...)
	h := must(t)(m.Lock(background))
	got := make(chan *holdfast.Hold)
	go func() { got <- must(t)(holdfast.NewMultiLock(mutexes(other, "lk:b", "lk:a")...).Lock(background)) }()
	waitFor(t, "the waiter", func() bool {
		return slices.Contains(lines(s.Cli(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{lk:a}")), "1")
	})
	if err := h.Extend(background, time.Minute); err != nil {
		t.Error(err)
	}
	unlock(t, h)
	h = <-got
	_, err := m.TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, h)
	red := holdfast.NewRedLock(c.NewMutex("lk:a"))
	unlock(t, must(t)(red.Lock(background)))
	if n := strings.TrimSpace(s.Cli(t, "EXISTS", "lk:a")); n != "0" {
		t.Errorf("%s left", n)
	}
}
