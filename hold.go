package holdfast

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Hold is one acquired lock, from the acquire to Unlock. It has a deadline; the
// watchdog moves it for as long as Redis acknowledges the renewals. All methods
// are safe for concurrent use.
type Hold struct {
	owned     *ownerState
	composite *composite      // what a hold of several locks is made of, else nil
	ctx       context.Context // a hold is a context: that is how it tells its loss
	cancel    context.CancelCauseFunc
	since     time.Time
	renewed   bool  // the watchdog renews for it
	token     int64 // 0: none
	hooks     hookList
	ended     error       // why the hold is no more, other than loss; guarded by mutex
	lost      error       // why it is lost; guarded by mutex
	told      atomic.Bool // the hooks know of its loss
	// lastDeadline is the deadline that a lost hold had; guarded by mutex.
	lastDeadline time.Time
}

// Name returns the lock's name; of a hold of several locks, that of the
// [MultiLock] or [RedLock].
func (h *Hold) Name() string {
	if h.composite != nil {
		return h.composite.name
	}
	return h.owned.kind.name
}

// Owner returns who holds the lock. Several locks have one owner if all are of one
// client; otherwise it is the zero Owner, and the [Hold.Parts] have theirs.
func (h *Hold) Owner() Owner {
	if h.composite != nil {
		return h.composite.owner
	}
	return h.owned.owner
}

// Token returns the fencing token of a lock that is [Fenced], and 0 of others;
// those of several locks are in [Hold.Parts].
// It is greater than the tokens of all holds of the lock before, and stays the
// same for as long as the hold lasts. Redisson: RFencedLock.getToken, which
// returns the last token of whichever holder.
func (h *Hold) Token() int64 { return h.token }

// Context returns the context to do the work under. It is derived from the one
// that Lock was called with, and Lock of the same lock under it is reentrant: it
// belongs to the owner of this hold. So goroutines that share it are all inside
// this lock; at every other lock they exclude each other. It ends when the hold is
// lost, before the lock can be somebody else's, with the [*LostError] as its cause,
// which matches [ErrLost]; with [ErrClosed] when the client is closed; and with
// [context.Canceled] at Unlock and Detach.
func (h *Hold) Context() context.Context { return h.ctx }

// Deadline returns until when the hold may be trusted as things stand. The
// watchdog moves it; at the deadline the hold is lost. All holds of one owner at
// one lock share one deadline. Of a lost hold it is the last one; after Unlock it
// is the zero time.
func (h *Hold) Deadline() time.Time {
	if h.composite != nil {
		return h.composite.deadline(h)
	}
	t := h.owned
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case h.ended != nil:
		return time.Time{}
	case h.lost != nil:
		return h.lastDeadline
	case t.entry == nil:
		return t.deadline
	}
	return t.kind.client.watchdog.Deadline(t.entry)
}

// Extend makes the lock live for at least d from now, and moves the deadline
// accordingly. It never shortens anything. It returns an error that matches
// [ErrLost] if the lock is gone, [ErrNotHeld] after Unlock, [ErrInvalidLease]
// if d is out of bounds or beyond [WithMaxHold], and a [*BackendError] if Redis
// does not answer; the hold then stands as it was, or longer. Redisson:
// RLock.expire, which does not ask whose lock it is.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	d, err := checkLease(d)
	if err != nil {
		return err
	}
	if h.composite != nil {
		return h.composite.extend(h, func(part *Hold) error { return part.Extend(ctx, d) })
	}
	entry, err := h.extendable(d)
	if err != nil {
		return err
	}
	return h.extend(ctx, entry, d)
}

// extend is Extend after the checks.
func (h *Hold) extend(ctx context.Context, entry *watchdog.Entry, d time.Duration) error {
	t := h.owned
	c := t.kind.client
	answered := t.expect(d)
	o, err := c.ask(ctx, t.kind, "renew", t.kind.lock.Renew(t.owner.String(), t.counts(), d))
	answered(o)
	if err != nil {
		return err
	}
	count, err := t.renewed(o.Reply, 0, o.Sent)
	if err != nil {
		return &BackendError{Op: "renew", Name: t.kind.name, MayHaveRun: true, Err: err}
	}
	if count == 0 {
		t.lose(entry, watchdog.NotHeld)
		return h.alive()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entry == entry { // else the answer is about holds that have ended
		c.watchdog.Acknowledge(entry, o.Sent, d)
	}
	return h.state()
}

// extendable returns what is watched for the hold, or why it cannot be extended.
func (h *Hold) extendable(d time.Duration) (*watchdog.Entry, error) {
	t := h.owned
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := h.state(); err != nil {
		return nil, err
	}
	if !t.until.IsZero() && time.Now().Add(d).After(t.until) {
		return nil, t.kind.client.beyondMaxHold(t.kind.name)
	}
	return t.entry, nil
}

// mutex guards the hold's state.
func (h *Hold) mutex() *sync.Mutex {
	if h.composite != nil {
		return &h.composite.mu
	}
	return &h.owned.mu
}

// alive returns why the hold is no more, or nil.
func (h *Hold) alive() error {
	mu := h.mutex()
	mu.Lock()
	defer mu.Unlock()
	return h.state()
}

// state is alive with mutex held.
func (h *Hold) state() error {
	switch {
	case h.ended != nil:
		return h.ended
	case h.composite != nil:
		return h.composite.lost
	}
	return h.lost
}

// Unlock gives the hold back. It takes no context on purpose: a release that a
// cancelled context could stop would leave the lock to its lease. It returns
// within the client's timeout ([WithTimeout]).
//
// The hold's context ends first, and renewal stops before Redis is asked. When
// the owner's last hold goes, it holds the lock no more, and if nobody else does
// the release is announced. The error matches
//   - [ErrLost] and [ErrNotHeld] if the lock was lost before; what may be left of
//     it in Redis is removed in the background;
//   - [ErrNotHeld] if this hold was unlocked before;
//   - [ErrUntold] if it was given back, but the Redis user may not publish, so
//     those who wait were not told;
//   - [ErrClosed] if the client gave it back when it was closed;
//   - [*BackendError] if Redis did not answer in time; the release is then
//     repeated in the background until the lease has ended.
//
// Redisson: RLock.unlock.
func (h *Hold) Unlock() error {
	if h.composite != nil {
		return h.composite.unlock(h)
	}
	t := h.owned
	c := t.kind.client
	if !c.tasks.Begin() { // Close has given it back
		return h.alive()
	}
	defer c.tasks.End()
	deadline, held, lost, err := h.leave()
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
		c.tasks.Aside(func() { h.tellLoss(lost) })
		return lost
	}
	ctx, cancel := c.withinTimeout(c.life)
	defer cancel()
	switch err := t.unlock(ctx, deadline); {
	case errors.Is(err, ErrLost):
		c.tasks.Aside(func() { h.tellLoss(err) })
		return err
	case err != nil && !errors.Is(err, ErrUntold):
		return err
	default:
		c.tasks.Aside(func() { h.hooks.released(Event{Name: t.kind.name, Owner: t.owner, Held: time.Since(h.since)}) })
		return err
	}
}

// leave takes the hold off its owner's state, and returns until when it could have been
// trusted, whether that still had it, and why it was lost if it was. After
// the last one has left, nothing is renewed any more.
func (h *Hold) leave() (deadline time.Time, held bool, lost, err error) {
	t := h.owned
	dog := t.kind.client.watchdog
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.ended != nil {
		return time.Time{}, false, nil, h.ended
	}
	h.ended = problem(t.kind.name, "this hold was unlocked before", ErrNotHeld)
	if _, there := t.holds[h]; !there { // it was lost, and its key has gone
		return time.Time{}, false, h.lost, nil
	}
	delete(t.holds, h)
	switch {
	case h.lost != nil:
	case len(t.holds) > 0:
		deadline = dog.Deadline(t.entry)
		dog.SetRenewing(t.entry, t.wantsRenewal())
	case !t.endWatch():
		// The deadline has passed, and the watchdog is about to say so.
		h.lost = &LostError{Name: t.kind.name, Reason: t.because(watchdog.Unanswered, h.renewed)}
		t.lost = h.lost
		h.cancel(h.lost)
	default:
		deadline = t.deadline
	}
	h.cancel(nil) // no effect if it was cancelled with a cause before
	return deadline, true, h.lost, nil
}

// tellAcquired tells the hooks of a new hold.
func (h *Hold) tellAcquired(waited time.Duration) {
	h.hooks.acquired(Event{Name: h.Name(), Owner: h.Owner(), Waited: waited})
}

// tellLoss tells the hooks that the hold was lost, once.
func (h *Hold) tellLoss(why error) {
	if !h.told.Swap(true) {
		h.hooks.lost(Event{Name: h.Name(), Owner: h.Owner(), Held: time.Since(h.since), Err: why})
	}
}

// wantsRenewal reports whether any hold is to be renewed. t.mu is held.
func (t *ownerState) wantsRenewal() bool {
	for h := range t.holds {
		if h.renewed {
			return true
		}
	}
	return false
}
