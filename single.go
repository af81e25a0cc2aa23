package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// single is a hold of one lock. Its mutex is its owner's.
type single struct {
	*Hold

	owned        *ownerState
	caller       context.Context //nolint:containedctx // what Lock was called with
	lease        time.Duration   // that it was acquired with
	fixed        bool            // the watchdog does not renew for it; guarded by mu
	lastDeadline time.Time       // that a lost hold had; guarded by mu
}

func (s *single) client() *Client { return s.owned.kind.client }

func (*single) parts() []*Hold { return nil }

func (s *single) permitIDs() []string {
	if ids := s.owned.kind.permitIDs; ids != nil {
		return ids()
	}
	return nil
}

func (s *single) deadline() time.Time {
	t := s.owned
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case s.ended != nil:
		return time.Time{}
	case s.lost != nil:
		return s.lastDeadline
	case t.entry == nil:
		return t.deadline
	}
	return s.client().watchdog.Deadline(t.entry)
}

func (s *single) extend(ctx context.Context, d time.Duration) error {
	entry, err := s.extendable(d)
	if err != nil {
		return err
	}
	return s.renew(ctx, entry, d)
}

// extendable returns what is watched for the hold, or why it cannot be extended.
func (s *single) extendable(d time.Duration) (*watchdog.Entry, error) {
	t := s.owned
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.state(); err != nil {
		return nil, err
	}
	if !t.until.IsZero() && time.Now().Add(d).After(t.until) {
		return nil, s.client().beyondMaxHold(s.name)
	}
	return t.entry, nil
}

// renew makes the lock live for at least d from now. The watchdog's entry says which
// run of holds is meant.
func (s *single) renew(ctx context.Context, entry *watchdog.Entry, d time.Duration) error {
	t := s.owned
	c := s.client()
	answered := t.expect(d)
	o, err := c.ask(ctx, t.kind, "renew", t.kind.lock.Renew(t.owner.String(), t.counts(), d))
	answered(o)
	if err != nil {
		return err
	}
	count, err := t.renewed(o.Reply, 0, o.Sent)
	if err != nil {
		return &BackendError{Op: "renew", Name: s.name, MayHaveRun: true, Err: err}
	}
	if count == 0 {
		t.lose(entry, watchdog.NotHeld)
		return s.alive()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry == entry { // else the answer is about holds that have ended
		c.watchdog.Acknowledge(entry, o.Sent, d)
	}
	return s.state()
}

// fixLease shortens the lease if [WithMaxHold] demands it; that is no error.
func (s *single) fixLease(ctx context.Context, lease time.Duration) error {
	t := s.owned
	t.mu.Lock()
	s.fixed = true
	if t.entry != nil {
		t.setRenewal()
	}
	if !t.until.IsZero() {
		lease = min(lease, time.Until(t.until).Truncate(time.Millisecond))
	}
	entry, err := t.entry, s.state()
	t.mu.Unlock()
	if err != nil || lease < MinLease {
		return err
	}
	return s.renew(ctx, entry, lease)
}

func (s *single) keepUntil(end time.Time) {
	t := s.owned
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keptUntil = later(t.keptUntil, end)
}

func (s *single) unlock() error {
	t := s.owned
	c := s.client()
	if !c.tasks.Begin() { // Close has given it back
		return s.alive()
	}
	defer c.tasks.End()
	deadline, held, lost, err := s.leave()
	if err != nil {
		return err
	}
	if held {
		defer t.unref()
	}
	if lost != nil {
		if held {
			c.releaseLater(t) // first: the hook may close the client
		}
		c.tasks.Uncounted(func() { s.tellLoss(lost) })
		return lost
	}
	ctx, cancel := c.withinTimeout(c.life)
	defer cancel()
	err = t.unlock(ctx, deadline)
	switch {
	case errors.Is(err, ErrLost):
		c.tasks.Uncounted(func() { s.tellLoss(err) })
	case err == nil || errors.Is(err, ErrUntold):
		c.tasks.Uncounted(s.tellReleased)
	}
	return err
}

// leave takes the hold off its owner's state, and returns until when it could have been
// trusted, whether that still had it, and why it was lost if it was. After the last one
// has left, nothing is renewed any more.
func (s *single) leave() (deadline time.Time, held bool, lost, err error) {
	t, dog := s.owned, s.client().watchdog
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.ended != nil {
		return time.Time{}, false, nil, s.ended
	}
	s.ended = problem(s.name, "this hold was unlocked before", ErrNotHeld)
	if _, there := t.holds[s]; !there { // it was lost, and its key has gone
		return time.Time{}, false, s.lost, nil
	}
	delete(t.holds, s)
	switch {
	case s.lost != nil:
	case len(t.holds) > 0:
		deadline = dog.Deadline(t.entry)
		t.setRenewal()
	case !t.endWatch():
		// The deadline has passed, and the watchdog is about to say so.
		s.lost = t.lostError(t.because(watchdog.Unanswered, !s.fixed))
		t.lost = s.lost
		s.cancel(s.lost)
	default:
		deadline = t.deadline
	}
	s.cancel(nil) // no effect if it was cancelled with a cause before
	return deadline, true, s.lost, nil
}

func (s *single) detach() (Owner, error) {
	t := s.owned
	c, k := s.client(), t.kind
	if k.lock.Adopt(protocol.Acquire{}, "").IsZero() {
		return Owner{}, problem(k.name, "its permits have ids and no owner", ErrInvalid)
	}
	if !c.tasks.Begin() { // Close has given it back
		return Owner{}, s.alive()
	}
	defer c.tasks.End()
	ctx, cancel := c.withinTimeout(c.life)
	defer cancel()
	if err := t.takeOp(ctx); err != nil {
		return Owner{}, t.notQuiet()
	}
	defer t.freeOp()
	if !t.quiet(ctx) {
		return Owner{}, t.notQuiet()
	}
	if k.otherSide != "" {
		free, err := c.otherSide(ctx, t)
		if err != nil {
			return Owner{}, err
		}
		defer free()
	}
	keyEnd, err := s.endUnreleased()
	if err != nil {
		return Owner{}, err
	}
	c.retire(k, t.owner, keyEnd.Add(retirement)) // op is still taken: nobody asks as this owner yet
	t.unref()
	return t.owner, nil
}

// endUnreleased is detach when nothing is under way. It returns when the key will have
// gone.
func (s *single) endUnreleased() (keyEnd time.Time, err error) {
	t := s.owned
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.state(); err != nil {
		return time.Time{}, err
	}
	if len(t.holds) != 1 || t.count != 1 {
		return time.Time{}, problem(s.name, "its owner has nested holds", ErrReentrant)
	}
	if time.Now().Before(t.keptUntil) {
		return time.Time{}, problem(s.name, "MinHold keeps it", ErrInvalid)
	}
	if !t.endWatch() { // the watchdog was about to say so
		t.mu.Unlock()
		t.lose(nil, watchdog.Unanswered)
		t.mu.Lock()
		return time.Time{}, s.state()
	}
	s.ended = problem(s.name, "this hold was detached", ErrNotHeld)
	delete(t.holds, s)
	t.setCount(0)
	s.cancel(nil)
	return later(t.keyEnd, time.Now().Add(s.client().config.lease)), nil
}
