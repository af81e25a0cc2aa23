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
	"github.com/holdfast-go/holdfast/robustness/program"
)

// world is what a schedule runs in.
type world struct {
	s      *schedule
	run    *program.Run
	server *memdriver.Server

	mu       sync.Mutex
	slots    []*simClient       // the client of each slot, which may be followed by another
	clients  []*simClient       // all that there have been
	silent   time.Time          // until when the server answers nobody; it executes later what was sent
	away     time.Time          // until when connections are refused
	detached []program.Detached // for anybody to adopt
	store    map[string]int64
	closing  sync.WaitGroup
}

// simClient is a client, that is a process.
type simClient struct {
	*holdfast.Client

	w      *world
	id     int
	driver *memdriver.Driver
	identity

	mu      sync.Mutex
	rng     *rand.Rand
	dead    bool // crashed
	closed  bool
	cutOff  time.Time // until when requests are lost
	lossy   time.Time // until when replies are lost
	live    int       // holds and acquires under way
	lastEnd time.Time // when the last of them ended

	// For phantoms.
	asked         map[string]time.Time // when a call was last about an owner, or a permit
	handedOut     map[string]int       // how much of a lock
	detachedUntil map[string]time.Time // when what an owner has detached has ended in any case
}

var errRefused = errors.New("connection refused")

// start starts a client in a slot.
func (w *world) start(slot int) *simClient {
	s := w.s
	w.mu.Lock()
	id := len(w.clients) + 1
	w.mu.Unlock()
	rng := rand.New(rand.NewPCG(s.seed, uint64(1000+id)))
	c := &simClient{
		w: w, id: id, driver: w.server.Driver(), rng: rng,
		asked: map[string]time.Time{}, handedOut: map[string]int{}, detachedUntil: map[string]time.Time{},
	}
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
	if c.Client, err = holdfast.New(c.driver, options...); err == nil {
		c.identity, err = identityOf(c)
	}
	if err != nil {
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

// Usable reports whether the client's process still runs.
func (c *simClient) Usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.dead && !c.closed
}

// AddHolds counts holds, and acquires under way.
func (c *simClient) AddHolds(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live += n
	c.lastEnd = time.Now()
}

// Locks is the client itself.
func (c *simClient) Locks() *holdfast.Client { return c.Client }

// Number is the client's in the history.
func (c *simClient) Number() int { return c.id }

// Dead reports whether the client's process has crashed.
func (c *simClient) Dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
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
	if strings.HasSuffix(call.Script.Name(), "renew") && c.live == 0 && now.After(c.lastEnd) {
		s.failf("client %d renews %v, and holds nothing since %v", c.id, call.Keys, c.lastEnd.Sub(s.start))
	}
	c.asks(call.Args, now)
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
	case now.Before(c.lossy):
		f.LoseReply = true
	case !s.calm.Load() && s.uses["calls"] && c.rng.Float64() < s.faulty:
		f = c.singleFault(d)
	default:
		suffers = false
	}
	if suffers {
		s.faults.Add(1)
		s.tracef("client %d: %s %v suffers %+v", c.id, call.Script.Name(), call.Args, f)
		arrives := f.Refuse == nil && (!f.LoseRequest || f.Repeat)
		if arrives && program.Takes(call) || program.GivesBack(call) {
			until := s.log.Now() + history.Moment(program.Hinders(call, s.locks, s.lease, s.timeout))
			s.log.Mark(history.Op{Kind: history.Unanswered, Lock: program.About(call, s.locks), Client: c.id, Until: until}, history.Unknown)
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
	w.run = &program.Run{
		Seed: s.seed, Kind: s.kind, Locks: s.locks, Lease: s.lease, Timeout: s.timeout,
		Force: s.uses["force"], Prompt: true, Log: s.log, World: w,
	}
	server.SetClock(s.skew())
	for i := range s.slots {
		w.start(i)
	}
	s.tracef("%v", s)
	var actors, watch sync.WaitGroup
	rested := make(chan struct{})
	watch.Go(func() { w.phantoms(200*time.Millisecond, rested) })
	for i := range s.actors {
		actors.Go(func() { w.run.Act(i) })
	}
	w.afflict(rand.New(rand.NewPCG(s.seed, 2)))
	w.comeToRest(&actors)
	close(rested)
	watch.Wait()
	w.end()
}

// skew is by how much the server's clock is ahead.
func (s *schedule) skew() time.Duration {
	if !s.uses["skew"] {
		return 0
	}
	return []time.Duration{time.Hour, -time.Hour, 300 * time.Millisecond}[s.seed%3]
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
			c.lossy = until
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
	default:
		s.failf("nothing is done for the fault %q", name)
	}
}

// loseMessages cuts a client's subscriptions for a while.
func (w *world) loseMessages(c *simClient, lasts time.Duration) {
	c.driver.LoseMessages(true)
	time.Sleep(lasts)
	if c.Usable() {
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
	if empty {
		w.do("FLUSHALL")
	}
	time.Sleep(lasts)
	for _, c := range clients {
		if c.Usable() {
			c.driver.LoseMessages(false)
		}
	}
}

// Client is the client of an actor's slot, whichever that is.
func (w *world) Client(actor int) program.Client { return w.at(actor % w.s.slots) }

// Leave leaves a detached hold for anybody to adopt.
func (w *world) Leave(client program.Client, d program.Detached, findable bool) {
	c := client.(*simClient)
	c.has(d.Lock, -1)
	c.mu.Lock()
	c.detachedUntil[d.Owner.String()] = time.Now().Add(w.s.lease + 2*w.s.timeout)
	c.mu.Unlock()
	if !findable {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.detached = append(w.detached, d)
}

// Take takes what was left last.
func (w *world) Take(*program.Run) (d program.Detached, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.detached); n > 0 {
		d, ok = w.detached[n-1], true
		w.detached = w.detached[:n-1]
	}
	return d, ok
}

// Write writes to a store which compares tokens.
func (w *world) Write(lock string, token int64) history.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token < w.store[lock] {
		return history.Refused
	}
	w.store[lock] = token
	return history.OK
}

// NoteTrusted fails if the hold is trusted for longer than its key lives.
func (w *world) NoteTrusted(h *program.Hold) {
	s := w.s
	if !s.kind.Hash || s.class != program.ClassA || s.uses["force"] || h.Context().Err() != nil || !h.Client().Usable() {
		return
	}
	trusted := time.Until(h.Deadline())
	if trusted <= 0 {
		return
	}
	ms, err := strconv.Atoi(w.do("PTTL", h.Lock()))
	if lives := time.Duration(ms+1) * time.Millisecond; err != nil || lives < trusted {
		s.failf("hold %d trusts %q for %v, and its key lives for %v, %v", h.ID(), h.Lock(), trusted, lives, err)
	}
}

// NoteHandedOut counts how much of a lock a client has handed out.
func (w *world) NoteHandedOut(c program.Client, lock string, n int) {
	c.(*simClient).has(lock, n)
}

// NoteLost fails if somebody has taken a hold away before its time, though nobody forces the lock, and
// Redis keeps what it has.
func (w *world) NoteLost(hold int64, why error) {
	s := w.s
	var lost *holdfast.LostError
	if errors.As(why, &lost) && lost.Reason == holdfast.LostTaken && s.class == program.ClassA && !s.uses["force"] {
		s.failf("hold %d was taken away: %v", hold, why)
	}
}

// Moment is a time on the clock of the history.
func (w *world) Moment(t time.Time) history.Moment { return w.s.moment(t) }

// Tracef prints what happens.
func (w *world) Tracef(format string, args ...any) { w.s.tracef(format, args...) }

// Failf fails the schedule.
func (w *world) Failf(format string, args ...any) { w.s.failf(format, args...) }

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
	w.s.log.End(op, program.OutcomeOf(err, false), nil)
	w.s.tracef("client %d closed: %v", c.id, err)
	if took := time.Since(start); took > w.s.timeout {
		w.s.failf("Close took %v", took)
	}
	if err != nil && (!errors.Is(err, context.DeadlineExceeded) || last) && !c.Dead() {
		w.s.failf("Close of client %d: %v", c.id, err)
	}
}

func (w *world) do(args ...string) string {
	reply, err := w.server.Do(args...)
	if err != nil {
		w.s.t.Errorf("%v: %v", args, err)
	}
	return strings.Trim(fmt.Sprint(reply), "[]")
}

// comeToRest ends all faults, and waits until everything has come to rest.
func (w *world) comeToRest(actors *sync.WaitGroup) {
	s := w.s
	w.run.Stop()
	s.calm.Store(true)
	if s.uses["step"] && s.kind.Model.Permits > 0 {
		w.server.SetClock(time.Hour) // as late as it ever was: a permit ends at a time of the server's clock
	}
	w.mu.Lock()
	w.away, w.silent = time.Time{}, time.Time{}
	clients := slices.Clone(w.slots)
	w.mu.Unlock()
	for _, c := range clients {
		c.mu.Lock()
		c.cutOff, c.lossy = time.Time{}, time.Time{}
		c.mu.Unlock()
	}
	s.tracef("calm")
	most := 4*s.lease + time.Duration(s.actors)*(s.lease+10*time.Second)
	if s.uses["step"] {
		most += 2 * time.Minute // by the clock that was set back, a call may arrive for so long: see servertime's maxDoubt
	}
	if !waitFor(actors, most) {
		s.failf("the actors have not come to rest in %v", most)
		for _, c := range clients {
			w.closing.Go(func() { w.close(c, true) })
		}
		actors.Wait()
	}
	w.closing.Wait()
	if !s.t.Failed() {
		time.Sleep(program.Gone(s.lease, s.timeout) + 4*s.timeout + deadInLine)
	}
}

// end closes the clients. Nothing must be left.
func (w *world) end() {
	s := w.s
	w.mu.Lock()
	clients := slices.Clone(w.slots)
	w.mu.Unlock()
	if s.t.Failed() {
		for _, c := range clients {
			w.close(c, false)
		}
		return
	}
	for _, name := range s.locks {
		if s.kind.Open != nil {
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
	state, err := w.s.kind.Open(w.at(0).Client, name, false).Inspect(context.Background())
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
	if w.s.class == program.ClassA && len(state.Waiters) > 0 {
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
		if w.s.kind.Kept != nil {
			kept = append(kept, w.s.kind.Kept(name)...)
		}
		if w.s.kind.Open == nil {
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

// mayLeaveDead reports whether somebody who does not ask any more may stand in line: one who has crashed; or, if the
// server's clock is set or wrong by hours, one whose request took effect after it had left.
func (w *world) mayLeaveDead() bool {
	return slices.ContainsFunc([]string{"crash", "close", "step", "skew"}, func(fault string) bool { return w.s.uses[fault] })
}

// probe looks whether a waiter is woken by a message, and by its subscription if that was made
// anew after the message was lost.
func (w *world) probe(name string) {
	holder, waiter := w.at(0), w.at(1)
	open := func(c *simClient) program.Lock { return w.s.kind.Open(c.Client, name, false) }
	take := func(c *simClient) *holdfast.Hold {
		if s, ok := open(c).(*holdfast.PermitSemaphore); ok {
			h, err := s.Acquire(context.Background(), program.Permits, holdfast.Wait(time.Minute))
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
		holder.AddHolds(1)
		waiter.AddHolds(1)
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
			if i == 0 && w.mayLeaveDead() {
				most = behindDead
			}
			if at.Sub(told) > most {
				w.s.failf("the waiter had %q %v after it was told (message lost: %v)", name, at.Sub(told), lose)
			}
		default:
		}
		holder.AddHolds(-1)
		waiter.AddHolds(-1)
	}
}
