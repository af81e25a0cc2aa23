package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// This file turns a granted acquire into a hold.

// granted makes the hold, or says why the grant cannot be trusted, and has it released in
// the background. changeSem is held, and freed or passed on.
func (a *acquisition) granted(res call.Result, ch change) (*Hold, error) {
	s, c := a.state, a.client
	now := time.Now()
	deadline := c.watchdog.Trust(res.Sent, now, min(a.lease, a.lifetime(res)))
	s.mu.Lock()
	if err := a.untrusted(res, deadline, now); err != nil {
		s.count = max(s.count, ch.to)
		if a.queue != nil {
			a.queue.Resume(s, 0)
		}
		s.mu.Unlock()
		s.reconcile(cleanup{unknown: a.unknown, stood: ch.to, release: true, leave: a.leaving()})
		return nil, err
	}
	s.setCount(ch.to)
	if token, err := res.Reply.Int(0); a.kind.permitIDs == nil && (ch.from == 0 || err == nil && token > 0) {
		s.token = token
	}
	h := a.newHold(s)
	s.holds = append(s.holds, h)
	s.altered = len(s.holds) > 1
	if a.shares() {
		h.share(a.queue)
	} else {
		s.beginCohort(a.queue, h.since)
	}
	if s.entry == nil {
		a.watch(h, res.Sent)
		if a.lifetime(res) < a.lease {
			s.setEnd(deadline)
		}
	} else {
		c.watchdog.Acknowledge(s.entry, res.Sent, a.lease)
		s.setRenewal()
	}
	if a.config.minHold > 0 {
		s.retainedUntil = max(s.retainedUntil, mono.Of(now).Add(a.config.minHold))
		c.presence.OutlastedUntil(s.retainedUntil)
	}
	s.mu.Unlock()
	s.ref() // the hold's
	s.deferCleanup(cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()})
	s.freeChangeSem()
	return &h.Hold, nil
}

// lifetime is for how long what is held lives at most, if a granted acquire says so: a semaphore may have a
// time to live. Else it is [MaxLease].
func (a *acquisition) lifetime(res call.Result) time.Duration {
	if permits, ok := a.kind.requests.(heldPermits); ok {
		if end, found := permits.ReadEnd(res.Reply); found {
			return end
		}
	}
	return MaxLease
}

// watch begins to watch a new run of holds. If it was to be nested in another, and that has ended meanwhile, the owner
// has had the lock since that began. s.mu is held.
func (a *acquisition) watch(h *single, sent time.Time) {
	s, c := a.state, a.client
	s.ends, s.endsKnownAt, s.failing = 0, mono.Now(), nil
	if s.maxHoldEnd.IsZero() && c.config.maxHold > 0 {
		s.maxHoldEnd = mono.Of(sent).Add(c.config.maxHold)
	}
	s.entry = &s.first
	if s.first.Value != nil { // it has been another's: see ownerState.entry
		s.entry = new(entry)
	}
	*s.entry = entry{Value: s, Lease: h.lease, Until: s.maxHoldEnd, RecheckEvery: a.kind.recheckEvery}
	if h.fixed {
		s.entry.Lease = c.config.lease // for holds that are nested in it, and for pauses
	}
	c.watchdog.Watch(s.entry, sent, a.lease, !h.fixed)
}

// untrusted says why a grant is not handed out. s.mu is held.
func (a *acquisition) untrusted(res call.Result, deadline mono.Time, now time.Time) error {
	switch {
	case res.Acknowledged < a.client.config.replicas:
		return a.client.notReplicated(a.kind.name, res)
	case a.client.closing.Err() != nil:
		return problem(a.kind.name, "", ErrClosed)
	case a.state.lost != nil:
		return a.state.lost
	case deadline <= mono.Of(now):
		return &LostError{Name: a.kind.name, Reason: LostLeaseOver}
	case !a.state.maxHoldEnd.IsZero() && a.state.maxHoldEnd <= mono.Of(now):
		return &LostError{Name: a.kind.name, Reason: LostMaxHoldOver}
	}
	return nil
}

// newHold makes a hold of an owner's. s.mu is held.
func (a *acquisition) newHold(s *ownerState) *single {
	h := &single{
		Hold:  Hold{since: mono.Now(), hooks: a.config.hooks, token: s.token},
		owned: s, lease: a.config.lease, fixed: a.config.fixed && !a.config.renewFirst,
	}
	h.held = h
	h.inside = heldContext{a.caller, &s.ownerOf, &h.Hold}
	h.ctx, h.cancel = context.WithCancelCause(&h.inside)
	return h
}
