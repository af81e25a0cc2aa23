package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// This file lets the readers of one process share what Redis has granted once: one count of
// one owner. Whoever comes within the slice joins; the last who leaves gives it back. Later
// readers ask Redis again, so a writer who waits is not kept out for longer than by readers
// of as many processes.

// shares reports whether the hold that is acquired may be shared.
func (a *acquisition) shares() bool { return a.kind.sharesHolds && a.ordinary() }

// longestClosed is for how long those who come too late to join wait for the last member to
// leave. So there is a gap in which a writer has its turn, unless somebody reads for long.
const longestClosed = 2 * time.Millisecond

// share lets others join the hold, and those who wait in the queue do so at once. s.mu is held.
func (h *single) share(queue *waitqueue.Queue) {
	s := h.owned
	k := s.kind
	h.shares = true
	s.cohort = &cohort{state: s, until: h.since.Add(slice)}
	queues := k.client.queues
	queues.SetJoinable(k.queueFor(""), s.cohort)
	all := queues.LetIn(k.queueFor(""), h.handing(func(a *acquisition) { a.joined(s) }))
	if !all { // who cannot join asks, and newcomers stand behind it
		queues.EndJoinable(k.queueFor(""), s.cohort, 0)
	}
	if queue != nil {
		queue.Resume(s, 0)
	}
}

// join lets the acquire join others of this process that hold the lock. It reports false if
// it has to ask Redis.
func (a *acquisition) join() bool {
	if !a.shares() {
		return false
	}
	open, ok := a.client.queues.Joinable(a.kind.queueFor("")).(*cohort)
	if !ok {
		return false
	}
	s := open.state
	s.mu.Lock()
	defer s.mu.Unlock()
	now := mono.Now()
	switch {
	case s.cohort != open, s.lost != nil, s.altered, !s.undisclosed, s.count != 1, s.entry == nil, now > open.until:
		return false
	case s.holds[0].lease != a.config.lease, a.client.draining.Err() != nil, !s.lastsFor(a.config.lease, now):
		return false
	}
	a.joined(s)
	return true
}

// joined makes the hold of one who has joined. s.mu is held.
func (a *acquisition) joined(s *ownerState) {
	a.received = a.newHold(s)
	a.received.shares = true
	s.holds = append(s.holds, a.received)
}

// leaveShared ends the hold if others share its count, and reports false if none does.
func (h *single) leaveShared() bool {
	s := h.owned
	if !h.shares {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.state() != nil || s.sharers() < 2 || s.overdue() {
		return false
	}
	h.ended = leftToOthers
	s.drop(h)
	s.setRenewal()
	h.cancel(nil)
	return true
}

// awaitAlone lets nobody join any more, and waits until nobody else shares the hold's count.
// It reports false if ctx ends first, and true if the hold is no more.
func (h *single) awaitAlone(ctx context.Context) bool {
	s := h.owned
	for pause := time.Millisecond; h.shares; pause = min(2*pause, 20*time.Millisecond) {
		s.mu.Lock()
		if h.state() != nil {
			s.mu.Unlock()
			return true
		}
		s.altered = true
		alone := s.sharers() == 1
		s.mu.Unlock()
		if alone {
			break
		}
		call.Sleep(ctx, pause)
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}
