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
		"PartsOfManyKinds":   multiOfManyKinds,
		"WaitsForEach":       multiWaitsForEach,
		"L18_OppositeOrders": oppositeOrders,
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
		if got, want := p.Do(t, name, "HGETALL", name), []string{h.Owner().String(), "1"}; !slices.Equal(got, want) {
			t.Errorf("HGETALL %v, want %v", got, want)
		}
	}
	in := kit.Must(t)(m.Lock(h.Context()))
	if got := p.Do(t, names[0], "HGET", names[0], h.Owner().String()); !slices.Equal(got, []string{"2"}) {
		t.Errorf("count %v", got)
	}
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
		kit.WaitFor(t, "the release", func() bool { return slices.Equal(p.Do(t, name, "EXISTS", name), []string{"0"}) })
	}
	kit.Unlock(t, h)
}

func multiOfManyKinds(t *testing.T, p *kit.Platform) {
	names := freshNames(3)
	c, other := p.Client(t), p.Client(t)
	m := holdfast.NewMultiLock(c.NewMutex(names[0], holdfast.Fenced()), other.NewMutex(names[1]),
		c.NewMutex(names[2], holdfast.NonReentrant()), c.NewMutex(names[2]))
	h := kit.Must(t)(m.Lock(background, holdfast.FixedLease(10*time.Second)))
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
	kit.WantError(t, err, holdfast.ErrReentrant)
	if got := p.Do(t, names[0], "HGET", names[0], h.Parts()[0].Owner().String()); !slices.Equal(got, []string{"1"}) {
		t.Errorf("count %v", got)
	}
	kit.Unlock(t, h)
}

func multiWaitsForEach(t *testing.T, p *kit.Platform) {
	names := freshNames(3)
	c, other := p.Client(t), p.Client(t)
	var holds []*holdfast.Hold
	for _, name := range names {
		holds = append(holds, kit.Must(t)(other.NewMutex(name).Lock(background)))
	}
	got := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := holdfast.NewMultiLock(kit.Mutexes(c, names...)...).Lock(background)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	for i, name := range names {
		kit.WaitFor(t, "the waiter", func() bool { return p.Standing(t, name) == 1 })
		if len(got) > 0 {
			t.Errorf("acquired with %d held by another", len(names)-i)
		}
		kit.Unlock(t, holds[i])
	}
	if h := <-got; h != nil {
		kit.Unlock(t, h)
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
func oppositeOrders(t *testing.T, p *kit.Platform) {
	names := freshNames(4)
	var g guard
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
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
	x, y := a.Client(t, lease), b.Client(t, lease, holdfast.WithTimeout(time.Second))
	h := kit.Must(t)(holdfast.NewMultiLock(x.NewMutex("a"), y.NewMutex("b")).Lock(background))
	s[1].Kill()
	<-h.Context().Done()
	kit.WantLost(t, h)
	if got := a.Do(t, "a", "HGET", "a", h.Parts()[0].Owner().String()); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the other: %v", got)
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	if got := a.Do(t, "a", "EXISTS", "a"); !slices.Equal(got, []string{"0"}) {
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
	if got := a.Do(t, "a", "EXISTS", "a"); !slices.Equal(got, []string{"0"}) {
		t.Errorf("the other: %v", got)
	}
}

// On a cluster, with locks of one slot and of several.
func TestMultiLockOnACluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 0)
	do := kit.OnCluster(s)
	for _, p := range []*kit.Platform{
		kit.GoRedis("cluster", redis.UniversalOptions{Addrs: s.Addrs()}, do),
		kit.RueidisAt("cluster", rueidis.ClientOption{InitAddress: s.Addrs()}, do),
	} {
		p.Sharded = redistest.AtLeast(t, 7, 0)
		t.Run(p.Name, func(t *testing.T) {
			multiAllOrNone(t, p)
			multiOfManyKinds(t, p)
			tag := kit.Fresh()
			tagged := []string{"{" + tag + "}:a", "{" + tag + "}:b"}
			h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(p.Client(t), tagged...)...).Lock(background))
			for _, name := range tagged {
				if got := p.Do(t, name, "HGET", name, h.Owner().String()); !slices.Equal(got, []string{"1"}) {
					t.Errorf("count %v", got)
				}
			}
			kit.Unlock(t, h)
			oppositeOrders(t, p)
		})
	}
}

func TestMultiLockOnSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, 1, 3)
	do := func(t *testing.T, _ string, args ...string) []string {
		t.Helper()
		return kit.Lines(s.Primary(t).Cli(t, args...))
	}
	for _, p := range []*kit.Platform{
		kit.GoRedis("sentinel", redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}, do),
		kit.RueidisAt("sentinel", rueidis.ClientOption{
			InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: s.MasterName()},
		}, do),
	} {
		t.Run(p.Name, func(t *testing.T) {
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
		p := kit.GoRedis("", redis.UniversalOptions{Addrs: []string{s.Addr()}, MaxRetries: -1}, nil)
		if i%2 == 1 {
			p = kit.RueidisAt("", rueidis.ClientOption{InitAddress: []string{s.Addr()}}, nil)
		}
		p.Dead = func() bool { return !s.Running() }
		lockers = append(lockers, p.Client(t, options...).NewMutex(name))
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
	h := kit.Must(t)(r.Lock(background))
	kit.WaitFor(t, "the other servers", func() bool { return f.on(t, "x") == 5 })
	kit.Unlock(t, h)
	if n := f.on(t, "x"); n != 0 {
		t.Errorf("left on %d servers", n)
	}

	f[0].Stop()
	f[1].Stop()
	start := time.Now()
	h = kit.Must(t)(r.Lock(background))
	if took := time.Since(start); took > 5*time.Second { // the timeout is 6 s
		t.Errorf("had after %v, with two servers stopped", took)
	}
	_, err := other.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)

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
	kit.WaitFor(t, "the servers that answer", func() bool { return f[3:].on(t, "x") == 0 })
	for _, s := range f[:3] {
		s.Cont()
	}
	kit.WaitFor(t, "the servers that were stopped", func() bool { return f.on(t, "x") == 0 })
	kit.Unlock(t, kit.Must(t)(r.Lock(background)))
}

// Three of five die while the lock is held: the hold ends while the two that are
// left still keep others from a quorum.
func TestRedLockLosesItsQuorum(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 5)
	h := kit.Must(t)(f.redlock(t, "x", holdfast.WithLease(6*time.Second), holdfast.WithTimeout(5*time.Second)).Lock(background))
	kit.WaitFor(t, "the other servers", func() bool { return f.on(t, "x") == 5 })
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
	kit.WantLost(t, h)
	if n := f[3:].on(t, "x"); n != 2 {
		t.Errorf("held on %d servers when the loss was told", n)
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	kit.WaitFor(t, "the release", func() bool { return f[3:].on(t, "x") == 0 })
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
	kit.WaitFor(t, "the release", func() bool { return f.on(t, "x") == 0 })
}

// The smallest rights that a multi-lock of plain mutexes needs are those of its
// mutexes.
func TestMultiLockNeedsNoFurtherRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Cli(t, kit.Known(t, strings.Fields("ACL SETUSER limited on >pw ~lk:* ~redisson_lock__channel:{lk:* resetchannels "+
		"&redisson_lock__channel:{lk:* -@all +eval +evalsha +script|load "+
		"+time +exists +hget +hgetall +hset +hkeys +pttl +pexpire +del +publish +subscribe +unsubscribe"))...)
	p := kit.GoRedis("limited", redis.UniversalOptions{Addrs: []string{s.Addr()}, Username: "limited", Password: "pw"}, kit.CLI(s))
	c, other := p.Client(t), p.Client(t)
	m := holdfast.NewMultiLock(kit.Mutexes(c, "lk:a", "lk:b")...)
	h := kit.Must(t)(m.Lock(background))
	got := make(chan *holdfast.Hold)
	go func() {
		got <- kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(other, "lk:b", "lk:a")...).Lock(background))
	}()
	kit.WaitFor(t, "the waiter", func() bool {
		return slices.Contains(kit.Lines(s.Cli(t, "PUBSUB", "NUMSUB", "redisson_lock__channel:{lk:a}")), "1")
	})
	if err := h.Extend(background, time.Minute); err != nil {
		t.Error(err)
	}
	kit.Unlock(t, h)
	h = <-got
	_, err := m.TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, h)
	red := holdfast.NewRedLock(c.NewMutex("lk:a"))
	kit.Unlock(t, kit.Must(t)(red.Lock(background)))
	if n := strings.TrimSpace(s.Cli(t, "EXISTS", "lk:a")); n != "0" {
		t.Errorf("%s left", n)
	}
}
