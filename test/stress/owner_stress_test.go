package stress

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestStress runs random programs of several clients against one server under
// fake time, with every fault that a network has, and checks after each step
// what must hold always. A failure prints its seed: -stress.first=SEED
// -stress.seeds=1 runs it again (goroutines that run at one instant may run in
// another order; repeat it if need be).
var (
	stressSeeds = flag.Int("stress.seeds", 12, "how many random programs TestStress runs")
	stressFirst = flag.Uint64("stress.first", 1, "the first seed")
	stressTrace = flag.Bool("stress.trace", false, "print what happens")
	stressKind  = flag.String("stress.kind", "", "kind of lock; empty: by seed")
	stressOnly  = flag.String("stress.features", "", "features to use, by letter; empty: by seed (f force, e extend, o one owner in two goroutines, c clock, k close, m message loss, t transfers, x no faults)")
)

func TestStress(t *testing.T) {
	for seed := *stressFirst; seed < *stressFirst+uint64(*stressSeeds); seed++ {
		kit.Fake(t, func(t *testing.T, w *kit.World) { newStress(t, w, seed).run() })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// stress is one random program.
type stress struct {
	t     *testing.T
	w     *kit.World
	seed  uint64
	start time.Time

	kind    string
	names   []string
	lease   time.Duration
	timeout time.Duration
	uses    map[byte]bool

	stopping atomic.Bool  // actors begin nothing new
	calm     atomic.Bool  // no faults
	offset   atomic.Int64 // of the server's clock, ms: see setClock
	arrival  atomic.Int64 // when the last delayed request arrives, ns since start
	handed   atomic.Int64 // how many holds were handed over inside a process

	all []*stressClient

	mu     sync.Mutex
	held   map[*record]struct{}
	forced map[string]time.Time // until when holds granted are not accounted for
}

// record is a hold that is handed out.
type record struct {
	*holdfast.Hold
	from    time.Time
	client  *stressClient
	excused bool // force may have hit it
}

type stressClient struct {
	*holdfast.Client
	d      *memdriver.Driver
	id     int
	rng    *rand.Rand // guarded by mu
	mu     sync.Mutex
	faulty float64
	closed atomic.Bool
}

// skewed is a driver whose server has a clock of its own: a request meets the clock of the moment at which it is sent.
type skewed struct {
	*memdriver.Driver
	offset *atomic.Int64
}

func (d skewed) Eval(ctx context.Context, call driver.Call) (any, error) {
	off := d.offset.Load()
	limit, err := strconv.ParseInt(call.Args[0], 10, 64)
	if err != nil {
		return nil, err
	}
	if limit > 0 {
		call.Args = append([]string{strconv.FormatInt(limit-off, 10)}, call.Args[1:]...)
	}
	reply, err := d.Driver.Eval(ctx, call)
	switch said := reply.(type) {
	case int64: // done, at that time
		reply = said + off
	case []any:
		if now, ok := said[1].(int64); ok {
			said[1] = now + off
		}
	}
	return reply, err
}

func newStress(t *testing.T, w *kit.World, seed uint64) *stress {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &stress{
		t: t, w: w, seed: seed, start: time.Now(), uses: map[byte]bool{},
		held: map[*record]struct{}{}, forced: map[string]time.Time{},
		names:   []string{"a", "{b}:c"}[:1+rng.IntN(2)],
		lease:   []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second, 10 * time.Minute}[rng.IntN(4)],
		timeout: []time.Duration{150 * time.Millisecond, time.Second, 6 * time.Second}[rng.IntN(3)],
	}
	s.kind = stressedKinds[seed%uint64(len(stressedKinds))]
	if *stressKind != "" {
		s.kind = *stressKind
	}
	if *stressOnly != "" {
		for _, b := range []byte(*stressOnly) {
			s.uses[b] = true
		}
	} else {
		for _, f := range []byte("feockmt") {
			s.uses[f] = rng.IntN(3) == 0
		}
	}
	return s
}

func (s *stress) logf(format string, args ...any) {
	if *stressTrace {
		fmt.Printf("%10v  %s\n", time.Since(s.start), fmt.Sprintf(format, args...))
	}
}

var stressedKinds = []string{"mutex", "fair", "writer", "reader"}

// locker returns a lock of the program's kind.
func (s *stress) locker(c *stressClient, name string) kit.AnyLock {
	switch s.kind {
	case "fair":
		return c.NewFairMutex(name)
	case "writer":
		return c.NewRWMutex(name, holdfast.WritersFirst())
	case "reader":
		return c.NewRWMutex(name).RLocker()
	default:
		return c.NewMutex(name)
	}
}

func (s *stress) failf(format string, args ...any) {
	s.t.Errorf("seed %d, %s, lease %v, timeout %v, uses %s, at %v: %s", s.seed, s.kind, s.lease, s.timeout, s.letters(),
		time.Since(s.start), fmt.Sprintf(format, args...))
}

func (s *stress) letters() (l string) {
	for b, on := range s.uses {
		if on {
			l += string(b)
		}
	}
	return l
}

func (s *stress) client(id int) *stressClient {
	d := s.w.Server.Driver()
	c := &stressClient{d: d, id: id, rng: rand.New(rand.NewPCG(s.seed, uint64(id)+1000)), faulty: 0.2}
	var err error
	c.Client, err = testclient.New(skewed{d, &s.offset}, holdfast.WithLease(s.lease), holdfast.WithTimeout(s.timeout),
		holdfast.WithHooks(holdfast.Hooks{OnLost: s.onLost, OnAcquire: s.onAcquire}), holdfast.WithoutIdentity())
	if err != nil {
		s.t.Fatal(err)
	}
	d.SetFaults(func(call driver.Call) memdriver.Fault { return s.fault(c, call) })
	return c
}

func (s *stress) onAcquire(_ context.Context, e holdfast.Event) {
	if e.HandedOver {
		s.handed.Add(1)
	}
}

// onLost: nobody but force takes a hold away while it may be trusted.
func (s *stress) onLost(_ context.Context, e holdfast.Event) {
	s.logf("lost %v", e.Err)
	if !strings.Contains(e.Err.Error(), "server says") {
		return // unanswered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, forced := s.forced[e.Name]; !forced {
		s.failf("%v of %v is gone, and nobody took it: %v", e.Name, e.Owner(), e.Err)
	}
}

// setClock sets the server's clock, if no request is under way: one would meet the clock as it was,
// which tells the server that it is not late.
func (s *stress) setClock(offset int64) {
	if int64(time.Since(s.start)) <= s.arrival.Load() {
		return
	}
	s.offset.Store(offset)
	s.logf("the server's clock is off by %d ms", offset)
}

// fault chooses what happens to a call.
func (s *stress) fault(c *stressClient, call driver.Call) (f memdriver.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		arrives := int64(time.Since(s.start) + f.DelayRequest + f.RepeatAfter)
		for last := s.arrival.Load(); last < arrives && !s.arrival.CompareAndSwap(last, arrives); last = s.arrival.Load() {
		}
	}()
	r := c.rng
	d := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most) + 1)) }
	f.DelayRequest, f.DelayReply = d(3*time.Millisecond), d(3*time.Millisecond)
	if s.calm.Load() || s.uses['x'] || r.Float64() > c.faulty {
		return f
	}
	send := s.timeout / 3
	switch r.IntN(9) {
	case 0:
		f = memdriver.Fault{LoseRequest: true}
	case 1:
		f.DelayRequest = d(send)
	case 2:
		f.DelayRequest = send + d(600*time.Millisecond)
	case 3:
		f.DelayRequest = d(3 * send)
	case 4:
		f.LoseReply = true
	case 5:
		f.DelayReply = d(3 * send)
	case 6: // and nothing in between: what one is refused and the other is granted is not promised
		f.Repeat = true
	case 7:
		f.LoseReply, f.Repeat, f.RepeatAfter = true, true, d(2*send)
	default:
		f.Refuse = errors.New("connection refused")
	}
	s.logf("client %d: %s %v suffers %+v", c.id, call.Script.Name(), call.Args, f)
	return f
}

func (s *stress) run() {
	clients := []*stressClient{s.client(0), s.client(1), s.client(2)}
	s.all = clients
	rng := rand.New(rand.NewPCG(s.seed, 1))
	var actors sync.WaitGroup
	for i := range 2 + rng.IntN(6) {
		c := clients[rng.IntN(len(clients))]
		owner := holdfast.Owner{}
		if rng.IntN(2) == 0 { // by hand
			owner = c.NewOwner()
		}
		n := 1
		if s.uses['o'] && owner != (holdfast.Owner{}) {
			n = 2 // one owner in two goroutines
		}
		for j := range n {
			actors.Go(func() { s.actor(c, uint64(100*i+j+10), owner) })
		}
	}
	length := time.Duration(5+rng.IntN(40)) * time.Second
	end := time.Now().Add(length)
	for time.Now().Before(end) { // what happens to all
		time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Second))))
		c := clients[rng.IntN(len(clients))]
		switch {
		case s.uses['c'] && rng.IntN(3) == 0:
			s.setClock([]int64{0, 3_600_000, -3_600_000, 400, -400, 30_000}[rng.IntN(6)])
		case s.uses['m'] && rng.IntN(3) == 0:
			c.d.LoseMessages(rng.IntN(2) == 0)
		case rng.IntN(4) == 0:
			c.mu.Lock()
			c.faulty = []float64{0, 0.2, 0.5, 1}[rng.IntN(4)]
			c.mu.Unlock()
		}
	}
	if s.uses['k'] {
		s.close(clients[rng.IntN(len(clients))])
	}
	s.quiesce(clients, &actors)
}

// quiesce ends all faults; everything must come to rest, and nothing be left.
func (s *stress) quiesce(clients []*stressClient, actors *sync.WaitGroup) {
	s.calm.Store(true)
	s.stopping.Store(true)
	for _, c := range clients {
		c.d.LoseMessages(false)
	}
	s.logf("calm")
	calm := time.Now()
	actors.Wait()
	// The actors' last holds come one after another, each for a lease and more.
	if took, most := time.Since(calm), 20*(s.lease+time.Minute); took > most {
		s.failf("the actors needed %v to come to rest", took)
	}
	time.Sleep(4*s.timeout + 4*time.Second) // the sends' limits, and what is said after them
	if s.uses['t'] || s.uses['k'] {
		time.Sleep(s.lease) // what was detached, and never adopted; what Close could not give back
	}
	for _, name := range s.names {
		if got := s.w.Do("HGETALL", name); got != "" && !s.onlyDeadReaders(name) {
			s.failf("left in Redis: %s (%v)", got, s.w.PTTL(name))
			s.w.Do("DEL", name)
		}
	}
	time.Sleep(25 * time.Hour) // places and reservations that nobody could give up any more
	var closing sync.WaitGroup
	for _, c := range clients {
		closing.Go(func() { s.close(c) })
	}
	closing.Wait()
}

// onlyDeadReaders reports whether what is left of the lock says that it is read, by readers none of whom has a key. They
// keep nobody out, and the hash is gone within the lease.
func (s *stress) onlyDeadReaders(name string) bool {
	return s.w.Do("HGET", name, "mode") == "read" && s.w.Do("KEYS", "{"+name+"}:*") == "" && s.w.PTTL(name) <= s.lease
}

func (s *stress) close(c *stressClient) {
	start := time.Now()
	c.closed.Store(true)
	err := c.Close()
	s.logf("client %d closed: %v", c.id, err)
	if err != nil && (s.calm.Load() || !errors.Is(err, context.DeadlineExceeded)) {
		s.failf("Close: %v", err)
	}
	if took := time.Since(start); took > s.timeout {
		s.failf("Close took %v", took)
	}
}

// actor locks, nests, extends, unlocks, gives up, with an owner by hand or fresh.
func (s *stress) actor(c *stressClient, id uint64, owner holdfast.Owner) {
	rng := rand.New(rand.NewPCG(s.seed, id))
	nap := func(most time.Duration) { time.Sleep(time.Duration(rng.Int64N(int64(most)))) }
	for !s.stopping.Load() && !c.closed.Load() {
		nap(2 * time.Second)
		name := s.names[rng.IntN(len(s.names))]
		if s.uses['f'] && rng.IntN(10) == 0 {
			s.force(c, name)
			continue
		}
		base := background
		if owner != (holdfast.Owner{}) {
			base = holdfast.WithOwner(base, owner)
		}
		h := s.lock(c, name, base, rng)
		if h == nil {
			continue
		}
		holds := []*record{h}
		for range rng.IntN(4) {
			nap(min(2*s.lease, 2*time.Second))
			parent := holds[rng.IntN(len(holds))]
			switch {
			case s.uses['e'] && rng.IntN(3) == 0:
				h := parent
				d := min(s.lease, time.Duration(1+rng.Int64N(int64(2*time.Second))))
				if d >= time.Millisecond {
					_ = h.Extend(background, d)
				}
			case rng.IntN(2) == 0 && len(holds) > 1:
				i := rng.IntN(len(holds))
				s.unlock(holds[i], rng)
				holds = append(holds[:i], holds[i+1:]...)
			default:
				if h := s.lock(c, name, parent.Context(), rng); h != nil {
					holds = append(holds, h)
				}
			}
		}
		if rng.IntN(4) == 0 {
			nap(min(3*s.lease, time.Minute)) // let the watchdog work
		}
		if s.uses['t'] && len(holds) == 1 && rng.IntN(2) == 0 {
			holds = s.transfer(holds[0], rng)
		}
		endAll(holds, rng, s.unlock)
	}
}

// transfer gives a hold to another client, and returns what there is to unlock. At
// times the taker, or the giver, dies before.
func (s *stress) transfer(r *record, rng *rand.Rand) []*record {
	deadline := r.Deadline()
	s.mu.Lock()
	delete(s.held, r)
	s.mu.Unlock()
	owner, err := r.Detach()
	s.logf("client %d: Detach(%s, %v): %v", r.client.id, r.Name(), r.Owner(), err)
	if err != nil {
		return []*record{r}
	}
	if rng.IntN(5) == 0 {
		return nil
	}
	taker := s.all[rng.IntN(len(s.all))]
	time.Sleep(time.Duration(rng.Int64N(int64(min(s.lease, 2*time.Second)))))
	start := time.Now()
	h, err := s.locker(taker, r.Name()).Adopt(background, owner)
	s.logf("client %d: Adopt(%s, %v) after %v: %v", taker.id, r.Name(), owner, time.Since(start), err)
	s.mu.Lock()
	_, forced := s.forced[r.Name()]
	s.mu.Unlock()
	if err != nil {
		if errors.Is(err, holdfast.ErrNotHeld) && !errors.Is(err, holdfast.ErrLost) && !forced && time.Now().Before(deadline) {
			s.failf("what was detached until %v is gone: %v", deadline.Sub(s.start), err)
		}
		return nil
	}
	adopted := &record{Hold: h, from: time.Now(), client: taker}
	s.granted(adopted)
	return []*record{adopted}
}

func (s *stress) lock(c *stressClient, name string, ctx context.Context, rng *rand.Rand) *record {
	var options []holdfast.LockOption
	if rng.IntN(3) == 0 {
		options = append(options, holdfast.FixedLease(50*time.Millisecond+time.Duration(rng.Int64N(int64(s.lease)))))
	}
	cancel := func() {}
	switch rng.IntN(4) {
	case 0:
		options = append(options, holdfast.Wait(time.Duration(rng.Int64N(int64(2*time.Second)))))
	case 1:
		ctx, cancel = context.WithCancel(ctx)
		after := time.Duration(rng.Int64N(int64([]time.Duration{10 * time.Millisecond, s.timeout, 5 * time.Second}[rng.IntN(3)])))
		time.AfterFunc(after, cancel)
	}
	_ = cancel // it ends the hold's context later, and that changes nothing
	start := time.Now()
	h, err := s.locker(c, name).Lock(ctx, options...)
	owner, _ := holdfast.OwnerFrom(ctx, s.locker(c, name))
	if (h == nil) == (err == nil) {
		s.failf("Lock returned %v, %v", h, err)
	}
	if err != nil {
		s.logf("client %d: Lock(%s, %v) after %v: %v", c.id, name, owner, time.Since(start), err)
		return nil
	}
	r := &record{Hold: h, from: time.Now(), client: c}
	s.logf("client %d: Lock(%s, %v) after %v: granted until %v", c.id, name, h.Owner(), time.Since(start), h.Deadline().Sub(s.start))
	s.granted(r)
	return r
}

// endAll gives holds back, all at once or in any order.
func endAll[T any](holds []T, rng *rand.Rand, unlock func(T, *rand.Rand)) {
	if rng.IntN(3) == 0 {
		var wg sync.WaitGroup
		for _, h := range holds {
			r := rand.New(rand.NewPCG(rng.Uint64(), 0))
			wg.Go(func() { unlock(h, r) })
		}
		wg.Wait()
		return
	}
	for _, i := range rng.Perm(len(holds)) {
		unlock(holds[i], rng)
	}
}

// granted checks that no other owner's hold is alive.
func (s *stress) granted(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r.excused = now.Before(s.forced[r.Name()])
	for o := range s.held {
		if s.kind == "reader" || o.Name() != r.Name() || o.Owner() == r.Owner() || o.excused || r.excused {
			continue
		}
		if o.Context().Err() == nil && r.Context().Err() == nil && o.Deadline().After(now) && r.Deadline().After(now) {
			s.failf("%s: %v (since %v, until %v) and %v overlap", r.Name(), o.Owner(), o.from.Sub(s.start), o.Deadline().Sub(s.start), r.Owner())
		}
	}
	s.held[r] = struct{}{}
}

func (s *stress) unlock(r *record, rng *rand.Rand) {
	s.mu.Lock()
	delete(s.held, r)
	s.mu.Unlock()
	alive := r.Context().Err() == nil
	start := time.Now()
	err := r.Unlock()
	took := time.Since(start)
	s.logf("client %d: Unlock(%s, %v) after %v: %v", r.client.id, r.Name(), r.Owner(), took, err)
	if took > s.timeout {
		s.failf("Unlock took %v", took)
	}
	s.mu.Lock()
	_, forced := s.forced[r.Name()]
	s.mu.Unlock()
	var failed *holdfast.BackendError
	switch {
	case err == nil || errors.As(err, &failed):
	case errors.Is(err, holdfast.ErrClosed) && r.client.closed.Load():
	case errors.Is(err, holdfast.ErrLost) && (!alive || forced || errors.Is(context.Cause(r.Context()), holdfast.ErrLost)):
	default:
		s.failf("Unlock of %v, alive %v: %v", r.Owner(), alive, err)
	}
	if rng.IntN(10) == 0 {
		if err := r.Unlock(); err == nil || errors.As(err, &failed) {
			s.failf("the second Unlock: %v", err)
		}
	}
}

// force takes a lock away. Whoever holds it, or gets it while the order may
// still be on its way, is not accounted for.
func (s *stress) force(c *stressClient, name string) {
	s.mu.Lock()
	s.forced[name] = time.Now().Add(time.Hour)
	for r := range s.held {
		if r.Name() == name {
			r.excused = true
		}
	}
	s.mu.Unlock()
	_, err := s.locker(c, name).ForceUnlock(background)
	s.logf("client %d: ForceUnlock(%s): %v", c.id, name, err)
	s.mu.Lock()
	s.forced[name] = time.Now().Add(s.timeout/3 + time.Second)
	for r := range s.held {
		if r.Name() == name {
			r.excused = true
		}
	}
	s.mu.Unlock()
}

var _ = synctest.Wait
