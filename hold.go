package holdfast

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// Hold is one acquired lock, from the acquire to Unlock. It has a deadline; the
// watchdog moves it for as long as Redis acknowledges the renewals. All methods
// are safe for concurrent use.
type Hold struct {
	held   holding
	ctx    context.Context // a hold is a context: that is how it tells its loss
	cancel context.CancelCauseFunc
	since  mono.Time
	token  int64 // 0: none
	hooks  hookList

	// Guarded by the mutex of what is held.
	ended *ending // why the hold is no more, other than loss; nil while it is
	lost  error   // why it is lost
	// announced says that the hooks were told of it. There are none, or they are being told, otherwise.
	announced bool
}

// holding is what a hold stands for: one lock ([single]), or several ([composite]).
type holding interface { //nolint:interfacebloat // it is all that differs between one lock and several
	// ownership is which lock it is, and whose.
	ownership() ownership
	// discloseOwner is whose it is, for somebody who may use that.
	discloseOwner() Owner
	// mutex guards it, and how the hold has ended.
	mutex() *sync.Mutex
	// deadline is until when it may be trusted; of what is lost, until when it could
	// have been; zero after its end.
	deadline() mono.Time
	// extend makes it live for at least d from now.
	extend(ctx context.Context, d time.Duration) error
	// fixLease ends its renewal, and makes it live for lease from now, or for as long
	// as [WithMaxHold] lets it.
	fixLease(ctx context.Context, lease time.Duration) error
	// retainUntil keeps it from others until then, whenever it is unlocked.
	retainUntil(end mono.Time)
	// unlock gives it back, and says what that has come to.
	unlock() (unlocking, error)
	// detach ends the hold without a release.
	detach() (Owner, error)
	// permitIDs are those of its permits; nil if it has none.
	permitIDs() []string
	// parts are the holds that it is made of; nil if it is one lock.
	parts() []*Hold
}

// ownership is which lock is held, and by whom.
type ownership struct {
	name  string
	kind  string // for hooks
	owner Owner  // zero if several locks have several
}

// Name returns the lock's name; of a hold of several locks, that of the [MultiLock].
func (h *Hold) Name() string { return h.held.ownership().name }

// Owner returns who holds the lock. Several locks have one owner if all are of one
// client; otherwise it is the zero Owner, and the [Hold.Parts] have theirs. Permits stand
// in Redis by their ids, so State.HeldBy finds [Hold.PermitIDs], and not this owner.
//
// Calling Owner disables the hand-over of this hold inside the process (see [WithoutHandOver]). Readers of
// one process who share a hold have one owner. After an Unlock that has handed the lock over,
// the hold has no owner any more, and this returns the zero Owner.
func (h *Hold) Owner() Owner { return h.held.discloseOwner() }

// Token returns the fencing token of a lock that is [Fenced], and 0 of others;
// those of several locks are in [Hold.Parts].
// It is greater than the tokens of all holds of the lock before, and stays the
// same for as long as the hold lasts. Redisson: RFencedLock.getToken, which
// returns the last token of whichever holder.
func (h *Hold) Token() int64 { return h.token }

// Parts returns the holds that a hold of several locks is made of, for example
// to read their fencing tokens; those of a [MultiLock] in the order of its name,
// those of one from [NewRedLock] in the order in which they were acquired. It returns nil for a
// hold of one lock. Unlocking a part is losing it. Redisson has no counterpart.
func (h *Hold) Parts() []*Hold { return h.held.parts() }

// PermitIDs returns the ids of the permits of a hold of a [PermitSemaphore], 32
// hexadecimal digits each, for another program to know or release them by; nil of other
// holds. One that was given back by its id is among them until the holder has
// noticed, as it notices a forced unlock. Of a lost hold, they are those that it had
// when it was last known to be held. Redisson: what acquire returns.
func (h *Hold) PermitIDs() []string {
	return h.held.permitIDs()
}

// Context returns the context to do the work under. It is derived from the one
// that Lock was called with, and Lock of the same lock under it is reentrant: it
// belongs to the owner of this hold. So goroutines that share it are all inside
// this lock; at every other lock they exclude each other. It ends when the hold is
// lost, with the [*LostError] as its cause, which matches [ErrLost]; with [ErrClosed]
// when the client is closed; and with [context.Canceled] at Unlock and Detach.
//
// A loss is told before the lease can run out in Redis. What ends the lock earlier is
// told after it: a forced unlock, a failover or restart that has lost it, a deleted key.
// A process that is stopped learns of a loss when it goes on.
//
// A deadline of the context that Lock was called with ends the work, too.
// [context.WithoutCancel] keeps the values: Lock under it is nested while the hold lasts.
func (h *Hold) Context() context.Context { return h.ctx }

// Deadline returns until when the hold may be trusted as things stand. The
// watchdog moves it; at the deadline the hold is lost. All holds of one owner at
// one lock share one deadline. Of a lost hold it is the last one; after Unlock it
// is the zero time.
func (h *Hold) Deadline() time.Time { return h.held.deadline().Time() }

// Extend makes the lock live for at least d from now, and moves the deadline
// accordingly. It never shortens anything. It returns an error that matches
// [ErrLost] if the lock is gone, [ErrNotHeld] after Unlock, [ErrInvalid]
// if d is out of bounds or beyond [WithMaxHold], or if the semaphore whose permits these are ends
// before (they then last as long as it does), a [*BackendError] if Redis
// does not answer, ctx.Err() and its cause if ctx ends first, and [ErrClosed]; the hold then
// stands as it was, or longer. Redisson: RLock.expire, which does not ask whose lock it is.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	d, err := checkLease(d)
	if err != nil {
		return err
	}
	if err := h.alive(); err != nil {
		return err
	}
	return h.held.extend(ctx, d)
}

// alive returns why the hold is no more, or nil.
func (h *Hold) alive() error {
	mu := h.held.mutex()
	mu.Lock()
	defer mu.Unlock()
	return h.state()
}

// state is alive with the mutex held.
func (h *Hold) state() error {
	if err := h.hasEnded(); err != nil {
		return err
	}
	return h.lost
}

// ending says how a hold has ended other than by loss.
type ending struct {
	sentence string
	err      error
}

var (
	unlocked     = &ending{"this hold was unlocked before", ErrNotHeld}
	leftToOthers = &ending{"this hold was unlocked before", ErrNotHeld}
	detached     = &ending{"this hold was detached", ErrNotHeld}
	evicted      = &ending{"it was given back then, or its lease ends it", ErrClosed}
	rolledBack   = &ending{"too few of its parts could be acquired", ErrNotHeld}
)

// hasEnded returns why the hold is no more, other than loss. The hold's mutex is held.
func (h *Hold) hasEnded() error {
	if h.ended == nil {
		return nil
	}
	return problem(h.Name(), h.ended.sentence, h.ended.err)
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
//   - [*BackendError] if Redis did not answer in time, or refused. What may pass, as no answer
//     or a READONLY, is repeated in the background until the lease has ended; what was refused otherwise
//     is tried once more, and then the lease ends it. Beside a read hold of the owner, which
//     keeps a write hold from ending so, it is tried again for as long.
//
// Redisson: RLock.unlock.
func (h *Hold) Unlock() error {
	how, err := h.held.unlock()
	h.tellUnlocked(how, err)
	return err
}

// unlocking is what an Unlock has come to, for the hooks.
type unlocking int

const (
	endedBefore unlocking = iota // the hold had ended, or was lost, and its hooks are told of that
	notReleased                  // it may be held still, or it was lost
	released
	passedOn // inside this process
)

// Detach ends the hold without releasing the lock, for Adopt to take it over under
// the owner that Detach returns: in this process or another, which may be told by
// [Owner.String]. Nobody renews the lock until then, so it is lost if it is not
// adopted within its lease. The hold's context ends, Unlock returns [ErrNotHeld], and
// the owner is not to be used again: Lock under it returns [ErrInvalid].
//
// Of the hooks, OnEnd alone is told. Closing the client does not release what was detached.
//
// Detach waits, for the client's timeout at most, until no call for this hold is
// under way. The error matches
//   - [ErrReentrant] if the owner has other holds of the lock, nested ones or on the
//     other side of a read-write lock, or readers of this process share it for longer than
//     the timeout; the hold stands, so unlock it;
//   - [ErrInvalid] if the hold has no single owner that could be replaced: it
//     is one of several locks, or of permits, which are known by their ids; or [MinHold]
//     keeps it; the hold stands;
//   - [ErrLost], [ErrNotHeld] or [ErrClosed] if the hold is no more;
//   - [*BackendError] if a call for it was still not answered after the timeout; the hold
//     stands.
//
// Redisson has no counterpart.
func (h *Hold) Detach() (Owner, error) {
	owner, err := h.held.detach()
	if err == nil {
		h.tellEnd(h.event())
	}
	return owner, err
}

// whenEnded has f called once, when the hold is lost or given back; at once if it has
// been. The hold's mutex is held then.
func (h *Hold) whenEnded(f func()) {
	mu := h.held.mutex()
	mu.Lock()
	defer mu.Unlock()
	if h.state() != nil {
		f()
		return
	}
	cancel, called := h.cancel, false
	h.cancel = func(cause error) { // again when a lost hold is given back
		cancel(cause)
		if !called {
			called = true
			f()
		}
	}
}

// event is what hooks are told of a hold.
func (h *Hold) event() Event {
	which := h.held.ownership()
	return Event{Name: which.name, Kind: which.kind, hold: h, Token: h.token, Held: mono.Now().Sub(h.since)}
}

// tellAcquired tells the hooks of a new hold, and of its end if that has come by itself meanwhile. If they panic, nobody gets
// it: it is given back.
func (h *Hold) tellAcquired(how course) {
	if len(h.hooks) == 0 {
		return
	}
	told := false
	defer func() {
		if !told {
			_, _ = h.held.unlock() // what Redis does not answer to, the client goes on with
		}
	}()
	e := h.event()
	how.describe(&e)
	e.Held = 0
	h.hooks.tell(h.ctx, onAcquire, e)
	told = true
	mu := h.held.mutex()
	mu.Lock()
	defer mu.Unlock()
	h.announced = true
	if why := cmp.Or(h.lost, h.hasEnded()); why != nil {
		h.tellOver(why)
	}
}

// tellRenewed tells the hooks of a renewal.
func (h *Hold) tellRenewed(err error) {
	if h.hooks.want(onRenew) {
		e := h.event()
		e.Err = err
		go h.hooks.tell(h.ctx, onRenew, e)
	}
}

// tellOver tells the hooks that the hold has ended by itself: it is lost, or its client has closed. If they do not know of it
// yet, tellAcquired does. The hold's mutex is held.
func (h *Hold) tellOver(why error) {
	if h.announced {
		e := h.event()
		e.Err = why
		go h.tellEnd(e)
	}
}

// tellEnd tells the hooks that the hold has ended, and before that, that it was lost if it was.
func (h *Hold) tellEnd(e Event) {
	if errors.Is(e.Err, ErrLost) {
		h.hooks.tell(h.ctx, onLost, e)
	}
	h.hooks.tell(h.ctx, onEnd, e)
}

// tellUnlocked tells the hooks what an Unlock has come to.
func (h *Hold) tellUnlocked(how unlocking, err error) {
	if how == endedBefore || len(h.hooks) == 0 {
		return
	}
	e := h.event()
	if how == notReleased {
		e.Err = err
	} else {
		e.HandedOver = how == passedOn
		h.hooks.tell(h.ctx, onRelease, e)
	}
	h.tellEnd(e)
}
