package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// This file hands a lock over inside the process: a hold that is given back passes to the first who waits here, without a word
// to Redis. The next hold stands under the owner that is in Redis already, so who asks Redis is told the truth. Likewise
// the readers of one process share what Redis has granted once: whoever comes within the slice joins; the last who leaves
// gives it back. docs/internals/architecture.md, "The hand-over", has the rules and what each is against.

// How long a lock stays in this process, counted from when its grant was read: then it is released, and others have their
// turn. If holds are long, it stays for some of them all the same, or more time would pass on the way than inside. If nobody else
// has heard of the last release, a longer slice wastes less on asking.
const (
	slice        = time.Millisecond
	sliceHolds   = 4
	longestSlice = 20 * time.Millisecond
	// holdBack is how many times as long as the release took those who wait here let others try first, within bounds.
	holdBack                 = 2
	minHoldBack, maxHoldBack = 100 * time.Microsecond, 5 * time.Millisecond
	// longestSilence is for how long those who wait here do not ask while Redis does not answer the release.
	longestSilence = 250 * time.Millisecond
	// longestClosed is for how long those who come too late to join wait for the last member to leave. So there is a gap in
	// which a writer has its turn, unless somebody reads for long.
	longestClosed = 2 * time.Millisecond
)

// errHandedOver is the outcome of an acquire that was handed the lock.
var errHandedOver = errors.New("handed over")

// over reports whether others are to have their turn.
func (co *cohort) over(now mono.Time) bool {
	return now > co.until && co.holds >= sliceHolds || now > co.since.Add(longestSlice)
}

// end has those ask who wait for the cohort to end: after a while, if others are to have their turn before.
func (co *cohort) end(after time.Duration) {
	if co.queue != nil {
		co.queue.Resume(co.side, after)
		return
	}
	l := co.side.lock
	l.Engine.queues.EndJoinable(l.queueFor(""), co, after)
}

// endWhenReleased ends the cohort when the returned function is called; or before, if Redis does not answer the release soon:
// it may have done it all the same.
func (co *cohort) endWhenReleased() (released func()) {
	if co.queue == nil && co.side.lock.Engine.queues.Idle() {
		return func() { co.end(co.after) } // mostly nobody waits for readers
	}
	timer := time.AfterFunc(longestSilence, func() { co.end(0) })
	return func() {
		timer.Stop()
		co.end(co.after)
	}
}

// released lets others try first who have heard of the release that ends the cohort, unless one in line has the lock by now. That of
// readers does not say. On a cluster it is not known for certain: subscribers are on any of its nodes, unless pub/sub is sharded.
func (co *cohort) released(res call.Result) {
	if co == nil || res.Err != nil {
		return
	}
	heard, granted := protocol.ReadHeard(res.Reply)
	if co.queue == nil && !granted || co.queue != nil && co.queue.Heard(co.side, heard, granted) {
		co.after = min(max(minHoldBack, holdBack*mono.Now().Sub(res.Sent)), maxHoldBack)
	}
}

// handOver ends the hold by making it that of the first who waits here. It reports false, and has done nothing, if it is not to
// be handed over or nobody takes it.
func (h *Hold) handOver() bool {
	s, a, e := h.side, h.side.account, h.side.account.engine
	if !s.lock.handsOff() || e.queues.Idle() || !a.turn.TryTake() {
		return false
	}
	defer a.turn.Free()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !h.mayPass() {
		return false
	}
	queue := e.queues.HandOver(s.lock.queueFor(""), s, h.ifSameLease(func(next *Hold) {
		h.ended = passedOn
		h.end(nil)
		next.receive(s)
		s.Replace(&next.Hold)
	}))
	if queue == nil {
		return false
	}
	if s.cohort == nil {
		s.beginCohort(queue, h.since)
	}
	s.cohort.holds++
	return true
}

// mayPass reports whether the hold is ordinary enough, and recent enough, to be handed over. No attempt of it may be open, or
// nobody would know what stands in Redis. The turn is taken, and mu is held.
func (h *Hold) mayPass() bool {
	s, a := h.side, h.side.account
	now := mono.Now()
	switch {
	case h.err() != nil, s.entry == nil, !s.Plain(), !a.undisclosed, s.failing != nil:
		return false
	case a.engine.Draining.Err() != nil:
		return false
	case s.cohort == nil && now > h.since.Add(longestSlice), s.cohort != nil && s.cohort.over(now):
		return false // others have their turn
	}
	return s.lastsFor(h.Lease, now)
}

// ifSameLease calls give for a waiter that wants the lease of the hold, and reports false for others.
func (h *Hold) ifSameLease(give func(next *Hold)) func(next *Hold) bool {
	return func(next *Hold) bool {
		if next.Lease != h.Lease {
			return false
		}
		give(next)
		return true
	}
}

// receive begins a hold that was handed the lock, or has joined others. mu is held.
func (h *Hold) receive(s *side) {
	h.begin(s, mono.Now())
	h.received = true
}

// accept returns why a hold that was handed over is of no use, or nil: this process may have stood still since.
func (h *Hold) accept() error {
	s, a := h.side, h.side.account
	a.mu.Lock()
	usable := h.err() == nil && !s.overdue()
	a.mu.Unlock()
	if usable {
		return nil
	}
	if _, err := h.Unlock(); err != nil { // it was lost, or the client closes
		return err
	}
	return a.engine.Errors.Lost(s.lock.Name, lockerr.LeaseOver, nil)
}

// share lets others join the hold, and those who wait in the queue do so at once. mu is held.
func (h *Hold) share(queue *queue) {
	s, l := h.side, h.side.lock
	h.Shares = true
	s.cohort = &cohort{side: s, until: h.since.Add(slice)}
	queues, key := l.Engine.queues, l.queueFor("")
	queues.SetJoinable(key, s.cohort)
	all := queues.LetIn(key, h.ifSameLease(func(next *Hold) { next.join(s) }))
	if !all { // who cannot join asks, and newcomers stand behind it
		queues.EndJoinable(key, s.cohort, 0)
	}
	if queue != nil {
		queue.Resume(s, 0)
	}
}

// joinOthers has the hold join others of this process that hold the lock. It reports false if there are none to join.
func (h *Hold) joinOthers() bool {
	l := h.inside.lock
	open := l.Engine.queues.Joinable(l.queueFor(""))
	if open == nil {
		return false
	}
	s := open.side
	s.account.mu.Lock()
	defer s.account.mu.Unlock()
	now := mono.Now()
	switch {
	case s.cohort != open, s.entry == nil, now > open.until, !s.Joinable(), !s.account.undisclosed:
		return false
	case s.Holds()[0].Lease != h.Lease, l.Engine.Draining.Err() != nil, !s.lastsFor(h.Lease, now):
		return false
	}
	h.join(s)
	return true
}

// join begins a hold that shares the count of others. mu is held.
func (h *Hold) join(s *side) {
	h.receive(s)
	h.Shares = true
	s.Join(&h.Hold)
}

// leaveShared ends the hold if others share its count, and reports false if none does.
func (h *Hold) leaveShared() bool {
	s, a := h.side, h.side.account
	if !s.lock.SharesHolds {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !h.Shares || h.err() != nil || s.Sharing() < 2 || s.overdue() {
		return false
	}
	h.ended = passedOn
	s.Drop(&h.Hold)
	s.setRenewal()
	h.end(nil)
	return true
}

// awaitAlone lets nobody join any more, and waits until nobody else shares the hold's count. It reports false if ctx ends
// first, and true if the hold is no more.
func (h *Hold) awaitAlone(ctx context.Context) bool {
	s, a := h.side, h.side.account
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		a.mu.Lock()
		alone := !h.Shares || h.err() != nil || s.Sharing() == 1
		s.Alter()
		a.mu.Unlock()
		if alone {
			return true
		}
		if call.Sleep(ctx, pause); ctx.Err() != nil {
			return false
		}
	}
}
