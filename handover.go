package holdfast

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// This file hands a lock over inside the process: a hold that is given back passes to the
// first who waits here, without a word to Redis. The next hold stands under the owner that
// is in Redis already, so who asks Redis is told the truth. docs/architecture.md, "The
// hand-over", has the rules and what each is against.

// How long a lock stays in this process, counted from when its grant was read: then it is
// released, and others have their turn. If nobody else listens for that, a longer slice wastes
// less on asking.
const (
	slice        = time.Millisecond
	unheardSlice = 4 * time.Millisecond
	// holdBack is how many times as long as the release took those who wait here let others
	// try first, within bounds.
	holdBack                 = 2
	minHoldBack, maxHoldBack = 100 * time.Microsecond, 5 * time.Millisecond
	// longestSilence is for how long those who wait here do not ask while Redis does not answer
	// the release.
	longestSilence = 250 * time.Millisecond
)

// errHandedOver is the outcome of an acquire that was handed the lock.
var errHandedOver = errors.New("handed over")

// cohort is a run of holds in this process that pass from one to the next, or that share
// what Redis has granted once.
type cohort struct {
	state *ownerState
	queue *waitqueue.Queue // that does not ask while the cohort lasts; nil if holds share
	until mono.Time        // when nothing is handed over, and nobody joins, any more
	after time.Duration    // for how long the queue lets others try first
}

// handsOver reports whether the hold that is acquired may pass on later, and may be one that
// another hold passes to.
func (a *acquisition) handsOver() bool { return a.kind.handsOver && a.ordinary() }

// joinsCohort reports whether the hold may be part of a cohort.
func (a *acquisition) joinsCohort() bool { return a.handsOver() || a.shares() }

// ordinary reports whether the hold is to be like any other. Its owner must be known to nobody:
// else the next one could be nested in by whoever knows it.
func (a *acquisition) ordinary() bool {
	return a.claim.fresh && !a.config.fixed && a.config.retained() == 0 &&
		a.client.config.maxHold == 0 && !a.client.config.withoutHandOver
}

// beginCohort notes that the queue waits for the owner's hold to pass on. s.mu is held.
func (s *ownerState) beginCohort(queue *waitqueue.Queue, granted mono.Time) {
	if queue == nil {
		return
	}
	lasts := slice
	if queue.Unheard() {
		lasts = unheardSlice
	}
	s.cohort = &cohort{state: s, queue: queue, until: granted.Add(lasts)}
}

// endCohort has the queue ask again, and nobody join. s.mu is held.
func (s *ownerState) endCohort() {
	if s.cohort == nil {
		return
	}
	s.cohort.end(0)
	s.cohort = nil
}

// end has those ask who wait for the cohort to end: after a while, if others are to have their
// turn before.
func (co *cohort) end(after time.Duration) {
	if co.queue != nil {
		co.queue.Resume(co.state, after)
		return
	}
	k := co.state.kind
	k.client.queues.EndJoinable(k.queueFor(""), co, after)
}

// endWhenReleased ends the cohort when the returned function is called; or before, if Redis
// does not answer the release soon: it may have done it all the same.
func (co *cohort) endWhenReleased() (released func()) {
	if co.queue == nil && co.state.kind.client.queues.Idle() {
		return func() { co.end(co.after) } // mostly nobody waits for readers
	}
	timer := time.AfterFunc(longestSilence, func() { co.end(0) })
	return func() {
		timer.Stop()
		co.end(co.after)
	}
}

// released lets others try first, if any have heard of the release that ends the cohort. That of
// readers does not say. On a cluster it is not known for certain: subscribers are on any of its
// nodes, unless pub/sub is sharded.
func (co *cohort) released(res call.Result) {
	if co == nil || res.Err != nil {
		return
	}
	heard, err := res.Reply.Int(0)
	if co.queue == nil || err == nil && co.queue.Heard(co.state, heard) {
		co.after = min(max(minHoldBack, holdBack*time.Since(res.Sent)), maxHoldBack)
	}
}

// Refusal is what those get who wait for the hold to pass on, and have waited for long
// enough.
func (s *ownerState) Refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := &LockedError{Name: s.kind.name, Holder: s.owner}
	if s.entry != nil {
		refusal.TTL = max(0, mono.Until(s.kind.client.watchdog.Deadline(s.entry)))
	}
	return refusal
}

// handOver ends the hold by making it that of the first who waits here. It reports false,
// and has done nothing, if it is not to be handed over or nobody takes it.
func (h *single) handOver() bool {
	s := h.owned
	if !s.kind.handsOver || s.kind.client.queues.Idle() || !s.tryChangeSem() {
		return false
	}
	s.mu.Lock()
	passed := h.mayPass() && h.passOn()
	s.mu.Unlock()
	s.freeChangeSem()
	return passed
}

// mayPass reports whether the hold is ordinary enough, and recent enough, to be handed over.
// Nothing that was ever sent for it can have an effect any more, or it were not known what
// stands in Redis. changeSem and s.mu are held.
func (h *single) mayPass() bool {
	s, c := h.owned, h.client()
	now := mono.Now()
	switch {
	case h.state() != nil, len(s.holds) != 1, s.count != 1, s.entry == nil:
		return false // it has ended, or is not the only one
	case !s.undisclosed, s.altered, h.fixed, s.retainedUntil != 0:
		return false // it is known, or lives for longer or shorter than others do
	case s.deferred != nil, s.expected > 0, s.failing != nil:
		return false // not all is answered
	case c.draining.Err() != nil:
		return false
	case s.cohort == nil && now > h.since.Add(slice), s.cohort != nil && now > s.cohort.until:
		return false // others have their turn
	}
	return s.lastsFor(h.lease, now)
}

// lastsFor reports whether a hold may be trusted for most of its lease. s.mu is held.
func (s *ownerState) lastsFor(lease time.Duration, now mono.Time) bool {
	c := s.kind.client
	left := c.watchdog.Deadline(s.entry).Sub(now) + c.config.margin
	return left > lease-lease/4
}

// passOn hands the hold to the first waiter. s.mu is held.
func (h *single) passOn() bool {
	s := h.owned
	queue := h.client().queues.HandOver(s.kind.queueFor(""), s, h.handing(func(a *acquisition) {
		h.ended = leftToOthers
		h.cancel(nil)
		a.received = a.newHold(s)
		s.holds[0] = a.received
	}))
	if queue != nil && s.cohort == nil {
		s.beginCohort(queue, h.since)
	}
	return queue != nil
}

// handing has give done for a waiter that wants the lease which the hold has, and reports
// false for others.
func (h *single) handing(give func(a *acquisition)) func(taker any) bool {
	return func(taker any) bool {
		a := taker.(*acquisition) //nolint:forcetypeassert // nothing else takes
		if a.config.lease != h.lease {
			return false
		}
		give(a)
		return true
	}
}

// concludeHandOver concludes an acquire that was handed the lock. changeSem of its own owner, which has
// none, is held.
func (a *acquisition) concludeHandOver(todo cleanup) (*Hold, error) {
	a.state.reconcile(todo)
	h, s := a.received, a.received.owned
	s.mu.Lock()
	overdue := s.overdue() // this process may have stood still since
	s.mu.Unlock()
	if h.alive() == nil && !overdue {
		return &h.Hold, nil
	}
	if _, err := h.unlock(); err != nil { // it was lost, or the client closes
		return nil, err
	}
	return nil, &LostError{Name: s.kind.name, Reason: LostLeaseOver}
}
