package waiting

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// This world has three callers of one process in its local queue, and another process that has the lock from time to time. The
// waiters are unlisted. It is about the head and the try slot, wake-ups that are passed on, failures that are shared, handoffs,
// others that go first, and readers that share a hold.

const (
	callers     = 3
	sharesAfter = 2 // ticks
	holdsBack   = 1
	// silentFor is how long a call at most goes on if Redis never replies again: the head for an outage, and one that has come too
	// late to share its failure for another one.
	silentFor = 2*outage + sharesAfter
)

type caller struct {
	waits, inside bool
	promoted      bool // the head channel is closed
	w             Wait
}

// slot is the state of the try slot.
type slot byte

const (
	slotFree slot = iota
	slotTaken
	slotAbandoned // an attempt of one that has left may arrive yet
)

type queueWorld struct {
	policy  Policy
	readers bool // callers of this process may have the lock together
	now     mono.Time
	queue   []int8
	callers [callers]caller
	slot    slot
	wake    bool
	listens bool
	lore    Lore
	failed  bool // the last head has left its failure
	granted byte // readers: the lease of the last grant by Redis; only those that want the same one share it
	cohort  bool // a hold here may be handed off, or joined: nobody is promoted
	other   bool // the other process has the lock
	heard   bool // the queue was woken by the last release, and nobody has had the lock since
	fault   string
}

func newQueueWorld(p Policy) *queueWorld {
	p.Listens, p.Registers, p.LongestSleep, p.FailurePause, p.Outage = true, true, longestSleep, failurePause, outage
	return &queueWorld{policy: p, now: 100}
}

func (q *queueWorld) clone() *queueWorld {
	c := new(queueWorld)
	q.copyTo(c)
	return c
}

func (q *queueWorld) copyTo(c *queueWorld) {
	queue := c.queue[:0]
	queue = append(queue, q.queue...)
	*c = *q
	c.queue = queue
}

// key knows callers by their place in the queue and their lease: those that are alike may change places.
func (q *queueWorld) key(k *key) {
	k.now = q.now
	k.put(byte(len(q.queue)), byte(q.slot))
	for _, i := range q.queue {
		c := &q.callers[i]
		k.put(q.lease(i), flags(c.promoted), k.time(max(c.w.policy.SharesFailureAt, q.now)))
		k.wait(&c.w)
	}
	var inside [2]byte
	for i := range q.callers {
		if q.callers[i].inside {
			inside[q.lease(int8(i))]++
		}
	}
	k.put(inside[0], inside[1], k.time(q.lore.At), k.time(max(q.lore.NotBefore, q.now)),
		flags(q.fault != "", q.wake, q.listens, q.failed, q.cohort, q.other, q.heard, q.lore.InTouch))
	if q.cohort {
		k.put(q.granted)
	}
}

// inside returns how many callers have the lock.
func (q *queueWorld) inside() (n int) {
	for i := range q.callers {
		if q.callers[i].inside {
			n++
		}
	}
	return n
}

func (q *queueWorld) free() bool { return !q.other && (q.readers || q.inside() == 0) }

// on is the runner.
func (q *queueWorld) on(i int8, e Event) {
	c := &q.callers[i]
	before := c.w.State()
	d := c.w.On(q.now, e, q.lore)
	if d.Listen == ListenOn {
		q.listens = true
	}
	if d.Remember {
		q.lore.At, q.lore.InTouch = c.w.Until(), true
	}
	if d.FreeSlot && q.slot == slotTaken {
		q.slot = slotFree
	}
	q.wake = q.wake || d.PassOn
	if d.CloseCohort {
		q.cohort = false
		q.promote()
	}
	q.failed = q.failed || d.ShareFailure
	state := c.w.State()
	if _, head := e.(Head); head && state == Over && q.now < c.w.policy.SharesFailureAt {
		q.fault = fmt.Sprint(i, " fails with the head before, and has waited for a moment only")
	}
	if state < Granted {
		if (state == Requesting) != (before == Requesting || d.Send != Nothing) && before != Requesting {
			q.fault = fmt.Sprint(i, " is requesting, and sends nothing")
		}
		return
	}
	q.queue = slices.DeleteFunc(q.queue, func(j int8) bool { return j == i })
	c.waits, c.promoted, c.w = false, false, Wait{}
	if c.inside = state != Over; c.inside {
		q.heard = false
		q.cohort = q.cohort && q.readers || state == HandedOff && !q.readers || state == Granted && (q.readers || len(q.queue) > 0)
		if state == Granted {
			q.lore.At = q.now
		}
		if state == Granted && q.readers {
			q.letIn(i)
		}
	}
	q.promote()
}

// lease returns which lease a caller wants: of readers, the last one wants another than the others.
func (q *queueWorld) lease(i int8) byte {
	if q.readers && i == callers-1 {
		return 1
	}
	return 0
}

// letIn lets the waiters share a reader's hold. If one cannot, nobody else may join.
func (q *queueWorld) letIn(i int8) {
	q.granted = q.lease(i)
	for _, j := range slices.Clone(q.queue) {
		if q.lease(j) == q.granted && (q.callers[j].w.State() == Behind || q.slot == slotFree) {
			q.on(j, Received{})
		}
	}
	q.cohort = len(q.queue) == 0
}

func (q *queueWorld) promote() {
	if len(q.queue) > 0 && !q.cohort {
		q.callers[q.queue[0]].promoted = true
	}
	if len(q.queue) == 0 && !q.cohort {
		q.lore, q.failed, q.wake, q.listens, q.heard = Lore{}, false, false, false, false
	}
}

// released is a release that the queue hears of, if it listens, or not.
func (q *queueWorld) released(heard bool) {
	q.heard = heard && q.listens
	q.wake = q.wake || q.heard
}

// What may happen.

const (
	comes uint8 = iota
	isFirst
	hasSlot
	isAnswered
	getsNothing
	abandons
	wakesUp
	hasPaused
	stops
	hears // unlocks, and the queue hears of it
	unheard
	yieldsAfter // unlocks, and others go first
	handsOff
	joins // without waiting
	otherTakes
	otherReleases
	otherUnheard
	attemptEnds
	passes
)

// quiet are events that happen by themselves, without time, and are no fault.
var quiet = []uint8{isFirst, hasSlot, isAnswered, wakesUp, hasPaused}

func (q *queueWorld) events(all []event) []event {
	for n := range q.callers {
		i, c := int8(n), &q.callers[n]
		add := func(what ...uint8) {
			for _, one := range what {
				all = append(all, event{what: one, who: i})
			}
		}
		switch {
		case c.inside:
			add(hears, unheard)
			if q.cohort {
				add(yieldsAfter)
			}
			if len(q.queue) > 0 && q.slot == slotFree && !q.readers {
				add(handsOff)
			}
		case !c.waits:
			if add(comes); q.cohort && q.readers && q.lease(i) == q.granted {
				add(joins)
			}
		default:
			switch c.w.State() {
			case Behind:
				if c.promoted {
					add(isFirst)
				}
				if !c.w.Until().IsZero() && c.w.Until() <= q.now {
					add(hasPaused)
				}
			case HoldingBack, Asleep:
				if q.wake && c.w.State() == Asleep {
					add(wakesUp)
				}
				if c.w.Until() <= q.now {
					add(hasPaused)
				}
			case Due:
				if q.slot == slotFree {
					add(hasSlot)
				}
			case Requesting:
				add(isAnswered, getsNothing, abandons)
			default:
			}
			if c.w.State() != Requesting {
				add(stops)
			}
		}
	}
	switch {
	case q.other:
		all = append(all, event{what: otherReleases}, event{what: otherUnheard})
	case q.inside() == 0:
		all = append(all, event{what: otherTakes})
	}
	if q.slot == slotAbandoned {
		all = append(all, event{what: attemptEnds})
	}
	return append(all, event{what: passes})
}

func (q *queueWorld) do(e event) {
	i, c := e.who, &q.callers[e.who]
	switch e.what {
	case comes:
		p := q.policy
		if p.SharesFailureAt = q.now + sharesAfter; q.readers {
			p.ClosesCohortAt = q.now + 1
		}
		*c = caller{waits: true, w: New(p, false)}
		q.queue = append(q.queue, i)
		q.promote()
	case isFirst:
		failed := q.failed
		q.failed = false
		q.on(i, Head{Failed: failed})
	case hasSlot:
		q.slot = slotTaken
		q.on(i, Slot{})
	case isAnswered:
		if q.free() {
			q.on(i, Acquired{})
		} else {
			q.on(i, Refused{Retry: -1})
		}
	case getsNothing:
		q.on(i, Failed{Transient: true})
	case abandons:
		q.slot = slotAbandoned
		q.on(i, Failed{})
	case wakesUp:
		q.wake = false
		q.on(i, Woken{})
	case hasPaused:
		q.on(i, Timer{})
	case stops:
		q.on(i, Ended{})
	case hears, unheard, yieldsAfter:
		if c.inside = false; q.inside() > 0 {
			return // others share the hold
		}
		if q.lore.NotBefore = 0; e.what == yieldsAfter {
			q.lore.NotBefore = q.now + holdsBack
		}
		q.released(e.what == hears)
		q.cohort = false
		q.promote()
	case handsOff:
		c.inside, q.failed = false, false
		q.on(q.queue[0], Received{})
	case joins:
		c.inside = true
	case otherTakes:
		q.other, q.heard = true, false
	case otherReleases, otherUnheard:
		q.other = false
		q.released(e.what == otherReleases)
	case attemptEnds:
		q.slot = slotFree
	case passes:
		q.now++
	}
}

func (q *queueWorld) describe(e event) string {
	words := [...]string{
		"comes", "is first", "has the slot", "gets a reply", "gets no reply", "gives up during a request", "is woken", "has paused", "gives up",
		"unlocks, and is heard", "unlocks", "unlocks, and others go first", "hands off", "joins", "the other takes the lock", "the other releases, and is heard",
		"the other releases", "an abandoned attempt ends", "the clock ticks",
	}[e.what]
	if e.what >= otherTakes {
		return words
	}
	return fmt.Sprint(e.who, " ", words)
}

// The properties.

func (q *queueWorld) wrong(s *search) string {
	requesting, inside := 0, q.inside()
	for n := range q.callers {
		c := &q.callers[n]
		switch {
		case c.waits && c.w.State() == Requesting:
			requesting++
			fallthrough
		case c.waits && c.w.State() != Behind:
			if q.queue[0] != int8(n) {
				return fmt.Sprint(n, " tries, and is not the head")
			}
		}
	}
	switch {
	case q.fault != "":
		return q.fault
	case requesting > 1 || requesting == 1 && q.slot != slotTaken || requesting == 0 && q.slot == slotTaken:
		return "the try slot is not that of the one who tries"
	case inside > 1 && !q.readers || inside > 0 && q.other:
		return "two have the lock"
	case q.mustTake() && !q.clone().taken():
		return "a wake-up is lost: all sleep beside a free lock"
	}
	if wrong := q.clone().silent(); wrong != "" {
		return wrong
	}
	return q.finish(s)
}

// mustTake reports whether a waiter is to take the free lock at once, since the queue has heard of a release. After a failure it asks
// again soon anyway.
func (q *queueWorld) mustTake() bool {
	return q.heard && q.free() && len(q.queue) > 0 && q.slot != slotAbandoned && q.lore.NotBefore <= q.now && q.callers[q.queue[0]].w.away == 0
}

// taken makes what happens by itself happen, and reports whether the lock is taken then.
func (q *queueWorld) taken() bool {
	var all []event
	before := q.inside()
	for range longestFinish {
		all = q.events(all[:0])
		at := slices.IndexFunc(all, func(e event) bool { return slices.Contains(quiet, e.what) })
		if at < 0 || q.inside() > before || len(q.queue) == 0 {
			break
		}
		q.do(all[at])
	}
	return q.inside() > before || len(q.queue) == 0
}

// silent makes Redis silent for ever, and returns who goes on for too long then: calls that waited behind one that fails for long
// enough fail at the same moment.
func (q *queueWorld) silent() string {
	began, failed := q.now, mono.Time(0)
	var all []event
	if q.slot == slotAbandoned {
		q.slot = slotFree
	}
	for range longestFinish {
		if len(q.queue) == 0 || q.cohort {
			return ""
		}
		all = q.events(all[:0])
		at := slices.IndexFunc(all, func(e event) bool {
			return e.what != isAnswered && slices.Contains(quiet, e.what) || e.what == getsNothing
		})
		if at < 0 {
			at = len(all) - 1 // the clock
		}
		if e := all[at]; e.what == passes && q.callers[q.queue[0]].w.policy.SharesFailureAt <= failed {
			return "calls that waited behind one that failed go on"
		}
		waiting := len(q.queue)
		if q.do(all[at]); all[at].what == getsNothing && len(q.queue) < waiting {
			failed = q.now
		}
		if q.now-began > silentFor {
			break
		}
	}
	return "a call tolerates a silent Redis for ever"
}

// finish makes no fault happen, and everybody who is inside unlock, unheard; but readers stay for ever. It returns what keeps a waiter
// from the lock.
func (q *queueWorld) finish(s *search) string {
	var way []digest
	var all []event
	for range longestFinish {
		state := s.of(q.key)
		if s.ends[state] || len(q.queue) == 0 {
			for _, state := range way {
				s.ends[state] = true
			}
			return ""
		}
		way = append(way, state)
		all = q.events(all[:0])
		at := slices.IndexFunc(all, func(e event) bool {
			return slices.Contains(quiet, e.what) || e.what == unheard && !q.readers || e.what == otherUnheard || e.what == attemptEnds
		})
		if at < 0 {
			at = len(all) - 1
		}
		q.do(all[at])
	}
	return "it does not come to an end"
}

// All states are visited.
func TestSearchQueue(t *testing.T) {
	for _, c := range []struct {
		name    string
		lists   Lists
		readers bool
	}{
		{"no waitlist", Never, false},
		{"a waitlist, and no subscription", IfSubscribed, false},
		{"readers", IfSubscribed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := newQueueWorld(Policy{Lists: c.lists})
			q.readers = c.readers
			check(t, q, 1000)
		})
	}
}
