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
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The random programs are those of several clients against one server under fake time, with every fault that a network has.
// What must hold always is checked after each step, and a monitor holds Redis against what the holders believe, every so often. A failure
// prints its seed: -stress.first=SEED -stress.seeds=1 runs it again (goroutines that run at one instant may run in another order; repeat
// it if need be). Programs of all kinds, from a seed likewise, are in robustness.
var (
	stressSeeds = flag.Int("stress.seeds", 0, "how many random programs to run; 0: a few")
	stressFirst = flag.Uint64("stress.first", 0, "the first seed; 0: the test's own")
	stressTrace = flag.Bool("stress.trace", false, "print what happens")
	stressOnly  = flag.String("stress.features", "", "features to use, by letter; empty: by seed "+
		"(f force, e extend, o one owner in two goroutines, c clock, k close, m message loss, d clients die, j threads of Redisson's, "+
		"x no faults: then nobody may oversleep)")
)

// TestRWStress runs programs of the read-write lock whose holds last for seconds. Those from the first seed on use every feature.
func TestRWStress(t *testing.T) {
	run(t, 5, 10, func(p *program) { p.kind = "rw" })
}

// TestHandOverStress runs programs of holds that last for a moment, and pass from one to the next, inside a process and between processes.
func TestHandOverStress(t *testing.T) {
	holds, handed, between := 0, 0, 0
	run(t, 9, 12, func(p *program) { // of the programs from this seed on more hand over than of those before
		p.short, p.kind = true, []string{"mutex", "rw"}[p.seed%2]
		p.uses['d'], p.uses['x'], p.uses['j'], p.uses['c'], p.uses['o'] = false, false, false, false, false
		p.t.Cleanup(func() { holds, handed, between = holds+p.granted, handed+int(p.handed.Load()), between+p.between })
	})
	// Of a few programs it may be fewer.
	t.Logf("%d holds, %d of them handed over, %d after one of another process", holds, handed, between)
	if *stressSeeds == 0 && !testclient.WithoutHandOver() && (handed < holds/8 || between < holds/4) {
		t.Error("they are too few")
	}
}

func run(t *testing.T, first uint64, seeds int, prepare func(p *program)) {
	t.Helper()
	if *stressFirst > 0 {
		first = *stressFirst
	}
	if *stressSeeds > 0 {
		seeds = *stressSeeds
	}
	for seed := first; seed < first+uint64(seeds); seed++ {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			p := newProgram(t, w, seed)
			prepare(p)
			p.run()
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// program is one random program.
type program struct {
	t     *testing.T
	w     *kit.World
	seed  uint64
	start time.Time

	kind    string // mutex, rw
	short   bool   // its holds last for a moment
	names   []string
	lease   time.Duration
	timeout time.Duration
	uses    map[byte]bool
	clients []*client

	stopping atomic.Bool  // actors begin nothing new
	calm     atomic.Bool  // no faults
	offset   atomic.Int64 // of the server's clock, ms: see setClock
	arrival  atomic.Int64 // when the last delayed request arrives, ns since start
	handed   atomic.Int64 // how many holds were handed over inside a process

	mu      sync.Mutex
	forced  map[string]time.Time // until when holds granted are not accounted for
	holds   map[*hold]struct{}
	waiters map[*waiter]struct{}
	theirs  map[*theirs]struct{}
	changes map[string]int   // grants and releases of a lock
	tokens  map[string]int64 // the last one of a lock
	last    map[string]int   // the client that held a lock last
	granted int
	between int // holds after one of another client
}

type client struct {
	*holdfast.Client
	d      *memdriver.Driver
	id     int
	mu     sync.Mutex
	rng    *rand.Rand // guarded by mu
	faulty float64    // guarded by mu
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

// drawing are the random numbers of one part of a program.
func (p *program) drawing(part uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, part)) }

// upTo is a random time.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most) + 1))
}

func newProgram(t *testing.T, w *kit.World, seed uint64) *program {
	p := &program{
		t: t, w: w, seed: seed, start: time.Now(), uses: map[byte]bool{},
		forced: map[string]time.Time{}, holds: map[*hold]struct{}{}, waiters: map[*waiter]struct{}{}, theirs: map[*theirs]struct{}{},
		changes: map[string]int{}, tokens: map[string]int64{}, last: map[string]int{},
	}
	rng := p.drawing(0)
	p.names = []string{"a", "{b}:c"}[:1+rng.IntN(2)]
	p.lease = []time.Duration{300 * time.Millisecond, 3 * time.Second, 30 * time.Second, 10 * time.Minute}[rng.IntN(4)]
	p.timeout = []time.Duration{150 * time.Millisecond, time.Second, 6 * time.Second}[rng.IntN(3)]
	for _, f := range []byte("feockmdxj") {
		p.uses[f] = rng.IntN(3) == 0
	}
	if p.uses['x'] {
		p.uses['d'], p.uses['m'], p.uses['c'] = false, false, false
	}
	if p.uses['j'] {
		p.uses['f'] = false
	}
	if *stressOnly != "" {
		for f := range p.uses {
			p.uses[f] = strings.IndexByte(*stressOnly, f) >= 0
		}
	}
	return p
}

func (p *program) logf(format string, args ...any) {
	if *stressTrace {
		fmt.Printf("%10v  %s\n", time.Since(p.start), fmt.Sprintf(format, args...))
	}
}

func (p *program) failf(format string, args ...any) {
	features := ""
	for f, on := range p.uses {
		if on {
			features += string(f)
		}
	}
	p.t.Errorf("seed %d, %s, lease %v, timeout %v, uses %s, at %v: %s", p.seed, p.kind, p.lease, p.timeout, features,
		time.Since(p.start), fmt.Sprintf(format, args...))
}

func (p *program) client(id int) *client {
	d := p.w.Server.Driver()
	c := &client{d: d, id: id, rng: p.drawing(uint64(id) + 1000), faulty: 0.2}
	var err error
	c.Client, err = testclient.New(skewed{d, &p.offset}, holdfast.WithLease(p.lease), holdfast.WithTimeout(p.timeout), holdfast.WithoutIdentity(),
		holdfast.WithHooks(holdfast.Hooks{OnLost: p.onLost, OnAcquire: func(_ context.Context, e holdfast.Event) {
			if e.HandedOver {
				p.handed.Add(1)
			}
		}}))
	kit.OK(p.t, err)
	d.SetFaults(func(call driver.Call) memdriver.Fault { return p.fault(c, call) })
	return c
}

// onLost: nobody but force takes a hold away while it may be trusted.
func (p *program) onLost(_ context.Context, e holdfast.Event) {
	p.logf("lost %v", e.Err)
	if !strings.Contains(e.Err.Error(), "server says") {
		return // unanswered
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, forced := p.forced[e.Name]; !forced {
		p.failf("%v of %v is gone, and nobody took it: %v", e.Name, e.Owner(), e.Err)
	}
}

// setClock sets the server's clock, if no request is under way: one would meet the clock as it was,
// which tells the server that it is not late.
func (p *program) setClock(offset int64) {
	if int64(time.Since(p.start)) <= p.arrival.Load() {
		return
	}
	p.offset.Store(offset)
	p.logf("the server's clock is off by %d ms", offset)
}

// fault chooses what happens to a call.
func (p *program) fault(c *client, call driver.Call) (f memdriver.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		arrives := int64(time.Since(p.start) + f.DelayRequest + f.RepeatAfter)
		for last := p.arrival.Load(); last < arrives && !p.arrival.CompareAndSwap(last, arrives); last = p.arrival.Load() {
		}
	}()
	if c.dead.Load() {
		return kit.LostRequest
	}
	d := func(most time.Duration) time.Duration { return upTo(c.rng, most) }
	f.DelayRequest, f.DelayReply = d(3*time.Millisecond), d(3*time.Millisecond)
	if p.calm.Load() || p.uses['x'] || c.rng.Float64() > c.faulty {
		return f
	}
	send := p.timeout / 3
	switch c.rng.IntN(9) {
	case 0:
		f = kit.LostRequest
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
	p.logf("client %d: %s %v suffers %+v", c.id, call.Script.Name(), call.Args, f)
	return f
}

// run is the whole program: what happens to all while actors use the locks, until everything has come to rest.
func (p *program) run() {
	rng := p.drawing(1)
	var actors, monitor sync.WaitGroup
	stop := make(chan struct{})
	monitor.Go(func() { p.monitor(stop) })
	length := time.Duration(5+rng.IntN(40)) * time.Second
	if p.short {
		length = time.Duration(1+rng.IntN(20)) * time.Second
		p.beginShort(&actors, rng)
	} else {
		p.beginLong(&actors, rng)
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(upTo(rng, 5*time.Second))
		p.strike(p.clients[rng.IntN(len(p.clients))], rng)
	}
	if c := p.clients[rng.IntN(len(p.clients))]; p.uses['k'] && !c.dead.Load() {
		p.close(c)
	}
	p.rest(&actors)
	close(stop)
	monitor.Wait()
}

// strike is what happens to a client, or to all.
func (p *program) strike(c *client, rng *rand.Rand) {
	switch {
	case p.uses['c'] && rng.IntN(3) == 0:
		// No further back than a call's limit allows for: one that was held up
		// and then finds the clock set back takes effect after its time.
		p.setClock([]int64{0, 200, -200}[rng.IntN(3)])
	case p.uses['m'] && rng.IntN(3) == 0:
		c.d.LoseMessages(rng.IntN(2) == 0)
	case p.uses['d'] && rng.IntN(6) == 0 && c.id > 0: // one survives
		p.logf("client %d dies", c.id)
		c.dead.Store(true)
		c.closed.Store(true)
	case p.uses['f'] && p.short && rng.IntN(3) == 0:
		p.force(c, p.names[0], rng.IntN(2) == 0)
	case rng.IntN(4) == 0:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faulty = []float64{0, 0.2, 0.5, 1}[rng.IntN(4)]
	}
}

// rest ends all faults; everything must come to rest, and nothing be left.
func (p *program) rest(actors *sync.WaitGroup) {
	p.calm.Store(true)
	p.stopping.Store(true)
	for _, c := range p.clients {
		c.d.LoseMessages(false)
	}
	p.logf("calm")
	calm := time.Now()
	actors.Wait()
	// The actors' last holds come one after another, each for a lease and more.
	if took, most := time.Since(calm), 20*(p.lease+time.Minute); took > most {
		p.failf("the actors needed %v to come to rest", took)
	}
	time.Sleep(4*p.timeout + 4*time.Second) // the sends' limits, and what is said after them
	if p.uses['d'] || p.uses['j'] || p.uses['k'] {
		time.Sleep(2*p.lease + protocol.PlaceLives + 10*time.Second) // what the dead ones, Redisson and Close left behind
	}
	for key := range strings.FieldsSeq(p.w.Do("KEYS", "*")) {
		if !strings.HasPrefix(key, "redisson_lock_token") {
			p.failf("left in Redis: %s (%v)", key, p.w.PTTL(key))
		}
		p.w.Do("DEL", key)
	}
	var closing sync.WaitGroup
	for _, c := range p.clients {
		closing.Go(func() { p.close(c) })
	}
	closing.Wait()
	synctest.Wait() // of a dead one, Close gives up, and the rest of it goes on for a moment
}

func (p *program) close(c *client) {
	start := time.Now()
	c.closed.Store(true)
	err := c.Close()
	p.logf("client %d closed: %v", c.id, err)
	if err != nil && !c.dead.Load() && (p.calm.Load() || !errors.Is(err, context.DeadlineExceeded)) {
		p.failf("Close: %v", err)
	}
	if took := time.Since(start); took > p.timeout && !c.dead.Load() {
		p.failf("Close took %v", took)
	}
}
