package waiting

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// This world has two or three processes with one waiter each, one lock and its waitlist in Redis. A request arrives once, several
// times, late or never; its reply is read, late or lost; messages are early, late, repeated, forged or lost; connections break;
// callers give up, clients close, one process is killed, and once an operator releases the lock or Redis loses the waitlist.
// An attempt has its cutoff at the next tick of the clock. Redis is in waitlistredis_test.go, what may happen in
// waitlistevents_test.go, and the properties in waitlistwrong_test.go.

const (
	lease, grantLease    = 3, 2 // ticks
	hint, longestSleep   = 1, 2
	failurePause, outage = 1, 3
	unsubscribedFor      = 2
	waitsAtMost          = lease + grantLease + longestSleep
	longestFinish        = 200 // steps
)

// phase is what the owner of a process does.
type phase uint8

const (
	idle phase = iota
	waits
	holds
	releasing // it gives the lock back
	leaving   // its call has ended, and its operation slot is taken
	killed
)

// process has one owner, and the engine around its wait.
type process struct {
	phase
	w          Wait
	id         int8      // of the request under way; 0: it is plain
	sends      uint64    // IDs of requests of which an attempt may arrive until the next tick
	reply      reply     // to the request under way, not read yet
	first      mono.Time // when the request under way was sent first
	silent     mono.Time // since when Redis has not replied to the call; zero: it has
	doubt      mono.Time // when an attempt was last left without a reply that may have taken effect, or may yet; zero: never
	box        message   // that is not read yet
	awaited    uint64    // the IDs whose messages get into the box
	valid      uint64    // the IDs that count by docs/internals/protocol.md
	trust      mono.Time // holds: the deadline
	connected  bool      // Redis counts it as a subscriber of its grant channel
	subscribed bool      // the client believes that
	unlisted   mono.Time // it counts as not subscribed until then
	notBefore  mono.Time // its queue yields until then
	listens    bool      // to the release channel
	woken      bool      // its queue has a wake-up
	leaveDue   bool
	late       bool // an attempt of its release or leave may arrive
	forced     int8 // a request whose grant was released by force: as documented, its deadline means nothing
	fooled     bool // it holds the lock by that grant, or by a reply from before
}

// waitlistWorld is all of it.
type waitlistWorld struct {
	policy Policy
	rules  rules
	// contended says that the try slot is not free at once, and that the queue of a process yields, and has holds to hand off.
	contended bool
	processes int
	now       mono.Time
	next      int8 // ID
	sent      [len(ids)]mono.Time
	redis     redis
	process   [3]process
	accidents int8 // how many may happen yet
	fault     string
}

// rules are rules of the engine around the machine that a test takes away.
type rules struct {
	leavesAtOnce  bool // a leave does not wait for requests under way
	leavesNever   bool
	grantsFromNow bool // the deadline counts from the grant message
	forgetsDoubt  bool // a leave is not due because of an attempt in doubt
}

func newWaitlistWorld(p Policy, processes int) *waitlistWorld {
	p.LongestSleep, p.FailurePause, p.Outage = longestSleep, failurePause, outage
	return &waitlistWorld{policy: p, processes: processes, now: 100, next: 1, redis: redis{holder: nobody}, accidents: 1}
}

func (w *waitlistWorld) all() []process { return w.process[:w.processes] }

func (w *waitlistWorld) clone() *waitlistWorld {
	c := new(waitlistWorld)
	w.copyTo(c)
	return c
}

func (w *waitlistWorld) copyTo(c *waitlistWorld) {
	list, messages := c.redis.list[:0], c.redis.messages[:0]
	list, messages = append(list, w.redis.list...), append(messages, w.redis.messages...)
	var requests [len(c.process)][]Request
	for i := range requests {
		requests[i] = c.process[i].w.requests[:0]
		requests[i] = append(requests[i], w.process[i].w.requests...)
	}
	*c = *w
	c.redis.list, c.redis.messages = list, messages
	for i := range requests {
		c.process[i].w.requests = requests[i]
	}
}

func (w *waitlistWorld) key(k *key) {
	k.now = w.now
	for i := range w.all() {
		w.process[i].key(k)
	}
	r := &w.redis
	k.put(byte(r.holder), byte(w.accidents), byte(len(r.list)), k.time(r.until), flags(r.reserved[:]...), flags(w.fault != ""))
	for _, e := range r.list {
		k.put(byte(e.of), k.id(e.id))
	}
	for _, m := range r.messages {
		k.message(m)
	}
}

func (k *key) message(m message) { k.put(byte(m.to), byte(m.after), flags(m.grant), k.id(m.id)) }

func (p *process) key(k *key) {
	k.put(byte(p.phase), k.time(p.trust), k.time(p.unlisted), k.time(p.notBefore), byte(bits.OnesCount64(p.sends)),
		flags(p.connected, p.subscribed, p.leaveDue, p.late, p.fooled, !p.doubt.IsZero(), p.reply.came))
	if p.phase == waits {
		k.wait(&p.w)
		k.message(p.box)
		k.put(k.id(p.id), k.id(p.forced), k.time(p.silent), flags(p.listens, p.woken, p.doubt >= p.first))
	}
	for sends := p.sends; sends != 0; sends &= sends - 1 {
		k.put(k.id(int8(bits.TrailingZeros64(sends))))
	}
	if r := p.reply; r.came {
		k.put(byte(r.retry), k.time(r.sent), flags(r.acquired, r.forced, r.listed, r.added))
	}
}

// tidy forgets what cannot matter any more.
func (w *waitlistWorld) tidy() {
	w.redis.messages = slices.DeleteFunc(w.redis.messages, func(m message) bool {
		p := &w.process[m.to]
		return p.phase != waits || p.awaited>>m.id&1 == 0 || w.now-w.sent[m.id] > grantLease+1
	})
	for i := range w.all() {
		p := &w.process[i]
		if p.phase != waits {
			p.w, p.reply, p.id, p.box, p.forced, p.listens, p.woken, p.notBefore, p.silent = Wait{}, reply{}, 0, message{}, 0, false, false, 0, 0
		}
		if p.phase != holds {
			p.trust, p.fooled = 0, false
		}
		if p.unlisted < w.now {
			p.unlisted = 0
		}
		if p.notBefore <= w.now {
			p.notBefore = 0
		}
	}
}

// The engine around a wait.

// on is the runner.
func (w *waitlistWorld) on(i int8, e Event) {
	p := &w.process[i]
	d := p.w.On(w.now, e, Lore{NotBefore: p.notBefore})
	for _, r := range d.Forget {
		p.awaited &^= 1 << number(r.ID)
		if p.box.id == number(r.ID) {
			p.box = message{}
		}
	}
	if d.Unsubscribed {
		p.unlisted = w.now + unsubscribedFor
	}
	if d.Listen != ListenAsBefore {
		p.listens = d.Listen == ListenOn
	}
	if d.FreeSlot {
		p.reply = reply{}
		if p.sends != 0 {
			p.doubt = w.now
		}
	}
	switch state := p.w.State(); {
	case d.Send != Nothing:
		w.send(i, d.Send)
	case state == Due && !w.contended:
		w.takeSlot(i)
	case state == Asleep:
		w.takeBox(i)
	case state >= Granted:
		w.conclude(i)
	}
}

// takeSlot has what is in the box before the try.
func (w *waitlistWorld) takeSlot(i int8) {
	p := &w.process[i]
	w.takeBox(i)
	if p.w.State() == Due {
		w.on(i, Slot{Subscribed: p.subscribed && p.unlisted < w.now})
	}
}

func (w *waitlistWorld) takeBox(i int8) {
	p := &w.process[i]
	m := p.box
	switch p.box = (message{}); {
	case m.id == 0:
	case m.grant:
		w.on(i, Grant{ids[m.id]})
	default:
		w.on(i, Retry{ids[m.id], time.Duration(m.after)})
	}
}

func (w *waitlistWorld) send(i int8, what Send) {
	p := &w.process[i]
	p.id, p.first = 0, w.now
	if what == WithID {
		p.id = w.newID(p)
		p.w.Sent(ids[p.id], w.now)
	}
	p.sends |= 1 << p.id
}

func (w *waitlistWorld) newID(p *process) (id int8) {
	id = w.next
	w.next++
	w.sent[id] = w.now
	p.awaited |= 1 << id
	p.valid |= 1 << id
	return id
}

func (w *waitlistWorld) conclude(i int8) {
	p := &w.process[i]
	if p.sends != 0 {
		p.doubt = w.now
	}
	p.valid = 0
	p.leaveDue = p.w.LeaveDue(!p.doubt.IsZero() && !w.rules.forgetsDoubt) && !w.rules.leavesNever
	if p.w.State() != Granted {
		p.phase = leaving
		w.leaveIfNothing(i)
		return
	}
	p.phase = holds
	if sent := p.w.GrantSent(); !sent.IsZero() {
		p.trust = sent + grantLease
		if w.rules.grantsFromNow {
			p.trust = w.now + grantLease
		}
		p.fooled = p.forced > 0 && sent == w.sent[p.forced]
	}
}

// leaveIfNothing ends the call of an owner that leaves nothing to do.
func (w *waitlistWorld) leaveIfNothing(i int8) {
	if p := &w.process[i]; p.doubt.IsZero() && !p.leaveDue {
		p.phase = idle
	}
}

func (w *waitlistWorld) read(i int8, r reply) {
	p := &w.process[i]
	p.silent = 0
	if r.acquired {
		p.trust, p.fooled = r.sent+lease, r.forced
		w.on(i, Acquired{})
		return
	}
	if p.doubt < p.first { // an attempt past its cutoff: this refusal shows that it had no effect
		p.doubt = 0
	}
	if p.id > 0 {
		p.valid = 1 << p.id
	}
	w.on(i, Refused{Retry: r.retry, Listed: r.listed, New: r.added})
}

var mutexPolicy = Policy{Lists: IfSubscribed, Listens: true, GrantValid: grantLease, GrantMin: 1}

// All sequences of -search.depth events are tried for a mutex, and shorter ones for the others.
func TestSearch(t *testing.T) {
	registers, confirms := mutexPolicy, mutexPolicy
	registers.Registers = true
	confirms.GrantValid = 0
	for _, c := range []struct {
		name      string
		policy    Policy
		processes int
		contended bool
		shorter   int
	}{
		{"a mutex", mutexPolicy, 2, false, 0},
		{"others in the queues of the processes", mutexPolicy, 2, true, 0},
		{"three processes", mutexPolicy, 3, false, 4},
		{"Redis keeps something for every refused waiter", registers, 2, false, 2},
		{"no hold begins with a grant message", confirms, 2, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWaitlistWorld(c.policy, c.processes)
			w.contended = c.contended
			check(t, w, *deepest-c.shorter)
		})
	}
}

// The search finds what happens if the engine around the machine breaks a rule.
func TestSearchFindsBrokenRules(t *testing.T) {
	for _, c := range []struct {
		name      string
		rules     rules
		processes int
		wrong     string
	}{
		{"a leave does not wait for requests under way", rules{leavesAtOnce: true}, 2, "A has left, and something of it stays in Redis"},
		{"a waiter that gives up does not leave", rules{leavesNever: true}, 2, "B has left, and something of it stays in Redis"},
		{"an attempt in doubt is no reason to leave", rules{forgetsDoubt: true}, 2, "in the end the lock stays held"},
		{"a deadline counts from the grant message", rules{grantsFromNow: true}, 2, "B relies on its hold for longer than the key lives"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWaitlistWorld(mutexPolicy, c.processes)
			w.rules = c.rules
			s, wrong, path := run(w, *deepest)
			if wrong != c.wrong {
				t.Errorf("found: %q", wrong)
			}
			t.Logf("after %d states: %q", len(s.seen), path)
		})
	}
}
