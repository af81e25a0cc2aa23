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
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The random programs are those of several clients against one server under fake time, with every fault that a network has.
// What must hold always is checked after each step. A failure prints its seed: -stress.first=SEED -stress.seeds=1 runs it again
// (goroutines that run at one instant may run in another order; repeat it if need be). Programs of all kinds, from a seed likewise,
// are in robustness.
var (
	stressSeeds = flag.Int("stress.seeds", 3, "how many random programs TestRWStress runs")
	stressFirst = flag.Uint64("stress.first", 1, "the first seed")
	stressTrace = flag.Bool("stress.trace", false, "print what happens")
	stressOnly  = flag.String("stress.features", "", "features to use, by letter; empty: by seed "+
		"(f force, e extend, o one owner in two goroutines, c clock, k close, m message loss)")
)

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
	dead   atomic.Bool // nothing that it sends arrives
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
		forced:  map[string]time.Time{},
		names:   []string{"a", "{b}:c"}[:1+rng.IntN(2)],
		lease:   []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second, 10 * time.Minute}[rng.IntN(4)],
		timeout: []time.Duration{150 * time.Millisecond, time.Second, 6 * time.Second}[rng.IntN(3)],
	}
	if *stressOnly != "" {
		for _, b := range []byte(*stressOnly) {
			s.uses[b] = true
		}
	} else {
		for _, f := range []byte("feockm") {
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
	if c.dead.Load() {
		return memdriver.Fault{LoseRequest: true}
	}
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

// comeToRest ends all faults, and waits until everybody has come to rest.
func (s *stress) comeToRest(actors *sync.WaitGroup) {
	s.calm.Store(true)
	s.stopping.Store(true)
	for _, c := range s.all {
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
}

// closeAll closes all clients.
func (s *stress) closeAll() {
	var closing sync.WaitGroup
	for _, c := range s.all {
		closing.Go(func() { s.close(c) })
	}
	closing.Wait()
}

// changeLuck has another share of a client's calls suffer from faults.
func (s *stress) changeLuck(c *stressClient, rng *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faulty = []float64{0, 0.2, 0.5, 1}[rng.IntN(4)]
}

func (s *stress) close(c *stressClient) {
	start := time.Now()
	c.closed.Store(true)
	err := c.Close()
	s.logf("client %d closed: %v", c.id, err)
	if err != nil && !c.dead.Load() && (s.calm.Load() || !errors.Is(err, context.DeadlineExceeded)) {
		s.failf("Close: %v", err)
	}
	if took := time.Since(start); took > s.timeout && !c.dead.Load() {
		s.failf("Close took %v", took)
	}
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

func (s *stress) unlock(r *record, rng *rand.Rand) {
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
