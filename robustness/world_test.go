package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/robustness/history"
)

// world is what a schedule runs in.
type world struct {
	s      *schedule
	server *memdriver.Server

	mu       sync.Mutex
	slots    []*simClient // the client of each slot, which may be followed by another
	clients  []*simClient // all that there have been
	silent   time.Time    // until when the server answers nobody; it executes later what was sent
	away     time.Time    // until when connections are refused
	detached []*simHold   // for anybody to adopt
	store    map[string]int64
	closing  sync.WaitGroup
}

// simClient is a client, that is a process.
type simClient struct {
	*holdfast.Client

	w      *world
	id     int
	driver *memdriver.Driver

	mu      sync.Mutex
	rng     *rand.Rand
	dead    bool // crashed
	closed  bool
	cutOff  time.Time // until when requests are lost
	deaf    time.Time // until when replies are lost
	live    int       // holds and acquires under way
	lastEnd time.Time // when the last of them ended
}

var errRefused = errors.New("connection refused")

// start starts a client in a slot.
func (w *world) start(slot int) *simClient {
	s := w.s
	w.mu.Lock()
	id := len(w.clients) + 1
	w.mu.Unlock()
	rng := rand.New(rand.NewPCG(s.seed, uint64(1000+id)))
	c := &simClient{w: w, id: id, driver: w.server.Driver(), rng: rng}
	options := []holdfast.ClientOption{
		holdfast.WithLease(s.lease), holdfast.WithTimeout(s.timeout), holdfast.WithoutIdentity(),
		holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(_ context.Context, e holdfast.Event) {
			if e.HandedOver {
				s.handedOver.Add(1)
			}
		}}),
	}
	if rng.IntN(5) == 0 {
		options = append(options, holdfast.WithoutHandOver())
	}
	c.driver.SetFaults(c.fault)
	var err error
	if c.Client, err = holdfast.New(c.driver, options...); err != nil {
		s.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients = append(w.clients, c)
	w.slots[slot] = c
	return c
}

func (w *world) at(slot int) *simClient {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slots[slot]
}

// usable reports whether the client's process still runs.
func (c *simClient) usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead && !c.closed
}

// count counts holds, and acquires under way.
func (c *simClient) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live += n
	c.lastEnd = time.Now()
}

// fault is what happens to a call.
func (c *simClient) fault(call driver.Call) memdriver.Fault {
	s, w, now := c.w.s, c.w, time.Now()
	s.calls.Add(1)
	w.mu.Lock()
	silent, away := w.silent, w.away
	w.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasSuffix(call.Script.Name(), "_renew") && c.live == 0 && now.After(c.lastEnd) {
		s.failf("client %d renews %v, and holds nothing since %v", c.id, call.Keys, c.lastEnd.Sub(s.start))
	}
	d := func(most time.Duration) time.Duration {
		return time.Microsecond + time.Duration(c.rng.Int64N(int64(most)))
	}
	f := memdriver.Fault{DelayRequest: d(2 * time.Millisecond), DelayReply: d(2 * time.Millisecond)}
	suffers := true
	switch {
	case c.dead, now.Before(c.cutOff):
		f.LoseRequest = true
	case now.Before(away):
		f = memdriver.Fault{Refuse: errRefused}
	case now.Before(silent):
		f.DelayRequest += silent.Sub(now)
	case now.Before(c.deaf):
		f.LoseReply = true
	case !s.calm.Load() && s.uses["calls"] && c.rng.Float64() < s.faulty:
		f = c.singleFault(d)
	default:
		suffers = false
	}
	if suffers {
		s.faults.Add(1)
		s.tracef("client %d: %s %v suffers %+v", c.id, call.Script.Name(), call.Args, f)
		if name := call.Script.Name(); strings.HasSuffix(name, "acquire") || strings.HasSuffix(name, "adopt") {
			s.log.Mark(history.Op{Kind: history.Unanswered, Lock: call.Keys[0], Client: c.id, Until: s.log.Now() + history.Moment(s.gone())}, history.Unknown)
		}
	}
	return f
}

// singleFault is one of those that hit a single call. c.mu is held.
func (c *simClient) singleFault(d func(most time.Duration) time.Duration) (f memdriver.Fault) {
	send := c.w.s.timeout / 3
	f.DelayRequest, f.DelayReply = d(time.Millisecond), d(time.Millisecond)
	switch c.rng.IntN(9) {
	case 0:
		f.LoseRequest = true
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
	case 6: // at once: a request that arrives again after its answer is not promised to be harmless
		f.Repeat = true
	case 7:
		f.LoseReply, f.Repeat, f.RepeatAfter = true, true, d(2*send)
	default:
		f = memdriver.Fault{Refuse: errRefused}
	}
	return f
}

// moment is a time on the clock of the history. A hold that is over has no deadline.
func (s *schedule) moment(t time.Time) history.Moment {
	if t.IsZero() {
		return history.Never
	}
	return history.Moment(t.Sub(s.start))
}

// gone is after which time an acquire that was not answered has no effect any more.
func (s *schedule) gone() time.Duration { return 2*s.timeout + s.lease + 2*time.Second }

// deadInLine is for how long those wait who stand in line behind a client that has crashed.
const deadInLine = 15 * time.Second

// run runs the schedule under fake time.
func (s *schedule) run(t *testing.T) {
	server, err := memdriver.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s.t, s.start = t, time.Now()
	s.log = history.NewLog(history.NewClock(func() int64 { return int64(time.Since(s.start)) }), 0, nil)
	w := &world{s: s, server: server, slots: make([]*simClient, s.slots), store: map[string]int64{}}
	s.world = w
	if s.uses["skew"] {
		server.SetClock([]time.Duration{time.Hour, -time.Hour, 300 * time.Millisecond}[s.seed%3])
	}
	for i := range s.slots {
		w.start(i)
	}
	s.tracef("%v", s)
	var actors sync.WaitGroup
	for i := range s.actors {
		actors.Go(func() { w.actor(i) })
	}
	w.afflict(rand.New(rand.NewPCG(s.seed, 2)))
	w.rest(&actors)
}

// afflict brings faults upon all, for as long as the schedule lasts.
func (w *world) afflict(rng *rand.Rand) {
	s := w.s
	var names []string
	for _, name := range slices.Concat(faultNames, lossyNames) {
		if s.uses[name] && name != "calls" && name != "force" && name != "skew" {
			names = append(names, name)
		}
	}
	end := s.start.Add(s.length)
	for time.Now().Before(end) {
		time.Sleep(50*time.Millisecond + time.Duration(rng.Int64N(int64(time.Second))))
		if len(names) > 0 {
			w.strike(names[rng.IntN(len(names))], rng)
		}
	}
}

// strike is one fault.
func (w *world) strike(name string, rng *rand.Rand) {
	s := w.s
	slot := rng.IntN(s.slots)
	c := w.at(slot)
	lasts := time.Duration(rng.Int64N(int64([]time.Duration{2 * s.timeout, s.lease, 2 * s.lease}[rng.IntN(3)]))) + time.Millisecond
	lasts = min(lasts, 5*time.Second)
	s.tracef("FAULT: %s of client %d for %v", name, c.id, lasts)
	switch name {
	case "silent":
		w.mu.Lock()
		w.silent = time.Now().Add(lasts)
		w.mu.Unlock()
		time.Sleep(lasts)
	case "restart", "lose data":
		w.restart(lasts, name == "lose data")
	case "partition":
		c.mu.Lock()
		until := time.Now().Add(lasts)
		if rng.IntN(2) == 0 {
			c.cutOff = until
		} else {
			c.deaf = until
		}
		c.mu.Unlock()
		w.loseMessages(c, lasts)
	case "messages":
		w.loseMessages(c, lasts)
	case "crash":
		w.crash(c, slot)
	case "close":
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		w.closing.Go(func() { w.close(c, false) })
		w.start(slot)
	case "step":
		steps := []time.Duration{0, time.Hour, 10 * time.Second, time.Second, -time.Second, -time.Hour}
		if s.uses["lose data"] {
			steps = steps[1:2] // the tokens of a server that has lost all follow its clock
		}
		w.server.SetClock(steps[rng.IntN(len(steps))])
	}
}

// loseMessages cuts a client's subscriptions for a while.
func (w *world) loseMessages(c *simClient, lasts time.Duration) {
	c.driver.LoseMessages(true)
	time.Sleep(lasts)
	if c.usable() {
		c.driver.LoseMessages(false)
	}
}

// restart has the server go away and come back, with what it had or without.
func (w *world) restart(lasts time.Duration, empty bool) {
	w.mu.Lock()
	w.away = time.Now().Add(lasts)
	clients := slices.Clone(w.slots)
	w.mu.Unlock()
	for _, c := range clients {
		c.driver.LoseMessages(true)
	}
	w.do("SCRIPT", "FLUSH")
	if empty {
		w.do("FLUSHALL")
	}
	time.Sleep(lasts)
	if empty && w.s.kind.model.Permits > 0 { // those who wait do not set how many there are
		for _, name := range w.s.locks {
			w.do("SET", name, strconv.Itoa(permits), "NX")
		}
	}
	for _, c := range clients {
		if c.usable() {
			c.driver.LoseMessages(false)
		}
	}
}

// crash ends a client's process as a kill does, and starts another one.
func (w *world) crash(c *simClient, slot int) {
	w.s.log.Mark(history.Op{Kind: history.Crash, Client: c.id}, history.OK)
	c.mu.Lock()
	c.dead = true
	c.mu.Unlock()
	c.driver.LoseMessages(true)
	w.closing.Go(func() { w.close(c, false) }) // nothing of it arrives
	w.start(slot)
}

// close closes a client; at last there are no faults any more.
func (w *world) close(c *simClient, last bool) {
	start := time.Now()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	op := w.s.log.Begin(history.Op{Kind: history.Close, Client: c.id})
	err := c.Close()
	w.s.log.End(op, outcomeOf(err, false), nil)
	w.s.tracef("client %d closed: %v", c.id, err)
	if took := time.Since(start); took > w.s.timeout {
		w.s.failf("Close took %v", took)
	}
	if err != nil && (!errors.Is(err, context.DeadlineExceeded) || last) && c.mayReach() {
		w.s.failf("Close of client %d: %v", c.id, err)
	}
}

func (c *simClient) mayReach() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead
}

func (w *world) do(args ...string) string {
	reply, err := w.server.Do(args...)
	if err != nil {
		w.s.t.Errorf("%v: %v", args, err)
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

// rest ends all faults. Everything must come to rest, and nothing be left.
func (w *world) rest(actors *sync.WaitGroup) {
	s := w.s
	s.stopping.Store(true)
	s.calm.Store(true)
	w.mu.Lock()
	w.away, w.silent = time.Time{}, time.Time{}
	clients := slices.Clone(w.slots)
	w.mu.Unlock()
	for _, c := range clients {
		c.mu.Lock()
		c.cutOff, c.deaf = time.Time{}, time.Time{}
		c.mu.Unlock()
	}
	s.tracef("calm")
	if most := 4*s.lease + time.Duration(s.actors)*(s.lease+10*time.Second); !waitFor(actors, most) {
		s.failf("the actors have not come to rest in %v", most)
		for _, c := range clients {
			w.closing.Go(func() { w.close(c, true) })
		}
		actors.Wait()
	}
	w.closing.Wait()
	if s.t.Failed() {
		for _, c := range clients {
			w.close(c, false)
		}
		return
	}
	time.Sleep(s.gone() + 4*s.timeout + deadInLine)
	for _, name := range s.locks {
		if s.kind.open != nil {
			w.wantFree(name)
			w.probe(name)
		}
	}
	for _, c := range clients {
		w.closing.Go(func() { w.close(c, true) })
	}
	w.closing.Wait()
	w.wantNothing()
}

// waitFor reports whether what is waited for comes in time.
func waitFor(all *sync.WaitGroup, most time.Duration) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// wantFree fails if anybody holds the lock.
func (w *world) wantFree(name string) {
	state, err := w.s.kind.open(w.at(0).Client, name, false).Inspect(context.Background())
	if err != nil {
		w.s.failf("Inspect: %v", err)
	}
	if state.Locked() || len(state.Holders) > 0 {
		w.s.failf("%q is held, and nobody does: %+v", name, state)
	}
	for _, fault := range []string{"calls", "silent", "restart", "partition", "crash", "close"} {
		if w.s.uses[fault] {
			return // some could not say that they leave
		}
	}
	if w.s.class == classA && len(state.Waiters) > 0 {
		w.s.failf("%v wait for %q, and nobody does", state.Waiters, name)
	}
}

// wantNothing fails if anything is left in Redis.
func (w *world) wantNothing() {
	if got := w.do("PUBSUB", "CHANNELS"); got != "" {
		w.s.failf("subscriptions are left: %s", got)
	}
	time.Sleep(25 * time.Hour) // for ids of calls, and places of those who could not give them up
	var kept []string
	for _, name := range w.s.locks {
		if w.s.kind.kept != nil {
			kept = append(kept, w.s.kind.kept(name)...)
		}
		if w.s.kind.open == nil {
			kept = append(kept, name)
		}
	}
	for key := range strings.FieldsSeq(w.do("KEYS", "*")) {
		if !slices.Contains(kept, key) {
			w.s.failf("%q is left: %s", key, w.do("TYPE", key))
		}
	}
}

const (
	// byMessage is within what time a waiter has a lock that is released, if it is told.
	byMessage = 100 * time.Millisecond
	// behindDead is the same behind those who have crashed while they stood in line.
	behindDead = 6 * time.Second
)

// probe looks whether a waiter is woken by a message, and by its subscription if that was made
// anew after the message was lost.
func (w *world) probe(name string) {
	holder, waiter := w.at(0), w.at(1)
	open := func(c *simClient) simLock { return w.s.kind.open(c.Client, name, false) }
	take := func(c *simClient) *holdfast.Hold {
		if s, ok := open(c).(*holdfast.PermitSemaphore); ok {
			h, err := s.Acquire(context.Background(), permits, holdfast.Wait(time.Minute))
			if err != nil {
				w.s.failf("Acquire: %v", err)
			}
			return h
		}
		h, err := open(c).Lock(context.Background(), holdfast.Wait(time.Minute))
		if err != nil {
			w.s.failf("Lock: %v", err)
		}
		return h
	}
	for i, lose := range []bool{false, false, true} {
		holder.count(1)
		waiter.count(1)
		h := take(holder)
		if h == nil {
			return
		}
		granted := make(chan time.Time, 1)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if h := take(waiter); h != nil {
				granted <- time.Now()
				if err := h.Unlock(); err != nil {
					w.s.failf("Unlock: %v", err)
				}
			}
		})
		time.Sleep(min(50*time.Millisecond, w.s.lease/8))
		if lose {
			waiter.driver.LoseMessages(true)
		}
		if err := h.Unlock(); err != nil {
			w.s.failf("Unlock: %v", err)
		}
		told := time.Now()
		if lose {
			time.Sleep(20 * time.Millisecond)
			told = time.Now()
			waiter.driver.LoseMessages(false)
		}
		waiting.Wait()
		select {
		case at := <-granted:
			most := byMessage
			if i == 0 {
				most = behindDead
			}
			if at.Sub(told) > most {
				w.s.failf("the waiter had %q %v after it was told (message lost: %v)", name, at.Sub(told), lose)
			}
		default:
		}
		holder.count(-1)
		waiter.count(-1)
	}
}
