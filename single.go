package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// single is a hold of one lock. Its mutex is its owner's.
type single struct {
	Hold

	owned        *ownerState
	inside       heldContext   // what its context is derived from, and that from what Lock was called with
	lease        time.Duration // that it was acquired with
	fixed        bool          // the watchdog does not renew for it; guarded by mu
	shares       bool          // it has one count in Redis together with others of its owner
	lastDeadline mono.Time     // that a lost hold had; guarded by mu
}

func (h *single) ownership() ownership {
	s := h.owned
	return ownership{s.kind.name, s.kind.label, s.owner}
}

func (h *single) discloseOwner() Owner {
	s := h.owned
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.ended == leftToOthers {
		return Owner{}
	}
	s.undisclosed = false
	return s.owner
}

func (h *single) mutex() *sync.Mutex { return &h.owned.mu }

func (h *single) client() *Client { return h.owned.kind.client }

func (*single) parts() []*Hold { return nil }

func (h *single) permitIDs() []string {
	if ids := h.owned.kind.permitIDs; ids != nil {
		return ids()
	}
	return nil
}

func (h *single) deadline() mono.Time {
	s := h.owned
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.ended != nil:
		return 0
	case h.lost != nil:
		return h.lastDeadline
	case s.entry == nil:
		return s.deadline
	}
	return h.client().watchdog.Deadline(s.entry)
}

func (h *single) extend(ctx context.Context, d time.Duration) error {
	entry, err := h.extendable(d)
	if err != nil {
		return err
	}
	asked := time.Now()
	if err := h.renew(ctx, entry, d); err != nil {
		return err
	}
	return h.endsBefore(asked, d)
}

// endsBefore returns why the hold cannot last for d from a moment on, or nil.
func (h *single) endsBefore(asked time.Time, d time.Duration) error {
	s := h.owned
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends.IsZero() || s.ends >= s.kind.client.watchdog.Trust(asked, time.Now(), d) {
		return nil
	}
	return problem(s.kind.name, "the semaphore ends before, and the hold with it: see Hold.Deadline and PermitSemaphore.Expire", ErrInvalid)
}

// extendable returns what is watched for the hold, or why it cannot be extended.
func (h *single) extendable(d time.Duration) (*entry, error) {
	s := h.owned
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.state(); err != nil {
		return nil, err
	}
	if !s.maxHoldEnd.IsZero() && mono.Now().Add(d) > s.maxHoldEnd {
		return nil, h.client().beyondMaxHold(s.kind.name)
	}
	s.altered = true // the key may live for longer than the next one believes
	return s.entry, nil
}

// renew makes the lock live for at least d from now. The watchdog's entry says which
// run of holds is meant.
func (h *single) renew(ctx context.Context, entry *entry, d time.Duration) error {
	s := h.owned
	c := h.client()
	s.expect(d)
	res, err := invoke(ctx, s.kind, "renew", s.kind.lock().Renew(s.owner.String(), s.counts(), d))
	s.answered(d, res.Err == nil && len(res.Unknown) == 0)
	if err != nil {
		return err
	}
	count, err := s.renewed(entry, res.Reply, 0, res.Sent)
	if err != nil {
		return &BackendError{Op: "renew", Name: s.kind.name, MayHaveRun: true, Err: err}
	}
	if count == 0 {
		s.lose(entry, watchdog.NotHeld)
		return h.alive()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entry == entry { // else the answer is about holds that have ended
		c.watchdog.Acknowledge(entry, res.Sent, d)
	}
	return h.state()
}

// fixLease shortens the lease if [WithMaxHold] demands it; that is no error.
func (h *single) fixLease(ctx context.Context, lease time.Duration) error {
	s := h.owned
	s.mu.Lock()
	h.fixed, s.altered = true, true
	if s.entry != nil {
		s.setRenewal()
	}
	if !s.maxHoldEnd.IsZero() {
		lease = min(lease, mono.Until(s.maxHoldEnd).Truncate(time.Millisecond))
	}
	entry, err := s.entry, h.state()
	s.mu.Unlock()
	if err != nil || lease < MinLease {
		return err
	}
	return h.renew(ctx, entry, lease)
}

func (h *single) retainUntil(end mono.Time) {
	s := h.owned
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retainedUntil = max(s.retainedUntil, end)
}

func (h *single) unlock() (unlocking, error) {
	s := h.owned
	c := h.client()
	if !c.tasks.Begin() { // Close has given it back
		return endedBefore, h.alive()
	}
	defer c.tasks.End()
	if h.leaveShared() || h.handOver() {
		return passedOn, nil
	}
	left, err := h.leave()
	if err != nil {
		return endedBefore, err
	}
	if left.counted {
		defer s.unref()
	}
	ended := func() {}
	if left.cohort != nil {
		ended = left.cohort.endWhenReleased()
	}
	if left.lost != nil {
		if left.counted {
			s.releaseLater()
		}
		ended()
		return left.how, left.lost
	}
	err = s.unlock(left)
	ended()
	if err == nil || errors.Is(err, ErrUntold) {
		return released, err
	}
	return notReleased, err
}

// departure is how a hold has left its owner's state.
type departure struct {
	run      *holdRun  // in which it was
	deadline mono.Time // until when it could have been trusted
	counted  bool      // it had a count that nobody needs now
	lost     error     // why it was lost before
	how      unlocking // endedBefore if that was known
	cohort   *cohort   // that ends with it; nil if it does not, or there is none
}

// leave takes the hold off its owner's state. After the last one has left, nothing is
// renewed any more.
func (h *single) leave() (left departure, err error) {
	s, watch := h.owned, h.client().watchdog
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.hasEnded(); err != nil {
		return departure{}, err
	}
	h.ended = unlocked
	needed := s.needed()
	if !s.drop(h) { // it was lost, and its key has gone
		return departure{lost: h.lost}, nil
	}
	if h.lost == nil {
		left.how = notReleased
	}
	left.run, left.counted = s.run, s.needed() < needed
	if len(s.holds) == 0 && s.cohort != nil {
		left.cohort, s.cohort = s.cohort, nil // until it is released: before that there is no use in asking
	}
	switch {
	case h.lost != nil:
	case len(s.holds) > 0 && s.overdue(), len(s.holds) == 0 && !s.endWatch():
		// The deadline has passed, and the watchdog is about to say so.
		h.lost = s.lostError(s.because(watchdog.Unanswered, !h.fixed))
		if len(s.holds) == 0 {
			s.lost = h.lost
		}
		h.cancel(h.lost)
	case len(s.holds) > 0:
		left.deadline = watch.Deadline(s.entry)
		s.setRenewal()
	default:
		left.deadline = s.deadline
	}
	h.cancel(nil) // no effect if it was cancelled with a cause before
	left.lost = h.lost
	return left, nil
}

func (h *single) detach() (Owner, error) {
	s := h.owned
	c, k := h.client(), s.kind
	if k.lock().Adopt(protocol.Acquire{}, "").IsZero() {
		return Owner{}, problem(k.name, "its permits have ids and no owner", ErrInvalid)
	}
	if !c.tasks.Begin() { // Close has given it back
		return Owner{}, h.alive()
	}
	defer c.tasks.End()
	if err := h.alive(); err != nil {
		return Owner{}, err
	}
	if s.holdsOtherSide() { // at once: a Detach of that one would wait for this one, and this one for that
		return Owner{}, errHoldsOtherSide(s)
	}
	ctx, cancel := c.withinTimeout(c.life)
	defer cancel()
	if err := s.takeChangeSem(ctx); err != nil {
		return Owner{}, notQuiet(s)
	}
	defer s.freeChangeSem()
	if !awaitQuiet(ctx, s) {
		return Owner{}, notQuiet(s)
	}
	if !h.awaitAlone(ctx) {
		return Owner{}, problem(k.name, "others of this process go on reading by the same hold", ErrReentrant)
	}
	if k.otherSide != "" {
		free, err := lockOtherSide(ctx, s)
		if err != nil {
			return Owner{}, err
		}
		defer free()
	}
	keyEnd, err := h.endUnreleased()
	if err != nil {
		return Owner{}, err
	}
	c.retired.add(k, s.owner, keyEnd.Add(retirement)) // changeSem is still taken: nobody asks as this owner yet
	s.unref()
	return s.owner, nil
}

// endUnreleased is detach when nothing is under way. It returns when the key will have
// gone.
func (h *single) endUnreleased() (keyEnd mono.Time, err error) {
	s := h.owned
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := h.state(); err != nil {
		return 0, err
	}
	if len(s.holds) != 1 || s.count != 1 {
		return 0, problem(s.kind.name, "its owner has nested holds", ErrReentrant)
	}
	if mono.Now() < s.retainedUntil {
		return 0, problem(s.kind.name, "MinHold keeps it", ErrInvalid)
	}
	if !s.endWatch() { // the watchdog was about to say so
		s.mu.Unlock()
		s.lose(nil, watchdog.Unanswered)
		s.mu.Lock()
		return 0, h.state()
	}
	h.ended = detached
	s.drop(h)
	s.setCount(0)
	h.cancel(nil)
	return max(s.keyEnd, mono.Now().Add(h.client().config.lease)), nil
}
