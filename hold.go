package holdfast

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// Hold is one acquired lock, from the acquire to Unlock. It has a deadline; the watchdog moves it for as long as Redis
// acknowledges the renewals. One that nobody unlocks is renewed until its client closes, also if the program has
// forgotten it: [WithMaxHold] bounds that.
type Hold struct {
	core   core        // one, or a composite
	one    engine.Hold // of one lock
	handle *handle     // the lock; nil if it is of several
	hooks  hookList
	told   atomic.Uint32 // what the hooks know of it: see toldAcquired
}

// core is what one lock and several locks do each in their way. [engine.Hold] says what is what.
type core interface {
	engine.Held
	Owner() string
	Since() mono.Time
	Context() context.Context
	Deadline() mono.Time
	Extend(ctx context.Context, d time.Duration) error
	FixLease(ctx context.Context, lease time.Duration) error
	RetainUntil(end mono.Time)
	WhenEnded(f func(why error))
	Unlock() (engine.Unlocking, error)
}

var (
	_ core = (*engine.Hold)(nil)
	_ core = (*composite)(nil)
)

// made returns the hold's core. It panics if the hold is a zero value.
func (h *Hold) made() core {
	if h.core == nil {
		panic("holdfast: this Hold is a zero value; make one with Lock or TryLock")
	}
	return h.core
}

// several is the hold of several locks; nil if it is of one.
func (h *Hold) several() *composite {
	c, _ := h.made().(*composite)
	return c
}

// Name returns the lock's name; of a hold of several locks, that of the [MultiLock].
func (h *Hold) Name() string {
	if c := h.several(); c != nil {
		return c.lock.name
	}
	return h.handle.Name
}

// Owner returns who holds the lock, and from then on the hold does not pass on inside the process (see [WithoutHandOver]):
// the next holder would have this owner, too. After an Unlock that has handed the lock over, it is the zero Owner.
// Readers of one process who share a hold have one owner.
//
// Several locks have one owner if all are of one client; otherwise it is the zero Owner, and the [Hold.Parts] have
// theirs. Permits stand in Redis by their ids, so State.HeldBy finds [Hold.PermitIDs], and not this owner.
func (h *Hold) Owner() Owner { return Owner{h.made().Owner()} }

// String returns the kind, the name, the state and the owner, if there is one, for people to read:
//
//	mutex "x", held by 99f17b91-c6cc-889e-88f6-8265bee545cf:1
//
// The state is held, lost, or given up: after Unlock, Detach or Close. Unlike [Hold.Owner] it does not keep the hold from passing on.
func (h *Hold) String() string {
	text, owner := "held", ""
	switch err := h.made().Err(); {
	case errors.Is(err, ErrLost):
		text = "lost"
	case err != nil:
		text = "given up"
	}
	if h.several() != nil {
		owner = h.made().Owner()
	} else {
		owner = h.one.Shown()
	}
	if owner != "" {
		text += " by " + owner
	}
	return visible.Text(fmt.Sprintf("%s %q, %s", h.event().Kind, h.Name(), text))
}

// Token returns the fencing token of a lock that is [Fenced], and 0 of others;
// those of several locks are in [Hold.Parts].
// It is greater than the tokens of all holds of the lock before, and stays the
// same for as long as the hold lasts. Redisson: RFencedLock.getToken, the last token of any holder.
func (h *Hold) Token() int64 { return h.one.Token() }

// Parts returns the holds that a hold of several locks is made of, for example to read their fencing tokens; those of a
// [MultiLock] in the order of its name, those of one from [NewRedLock] in the order in which they were acquired; nil for a
// hold of one lock. Unlocking a part is losing it.
func (h *Hold) Parts() []*Hold {
	if c := h.several(); c != nil {
		return c.parts()
	}
	return nil
}

// PermitIDs returns the ids of the permits of a hold of a [PermitSemaphore], for another program to
// know or release them by; nil of other holds. One that was given back by its id is among them until the holder has
// noticed, as it notices a forced unlock. Of a lost hold, they are those that it had
// when it was last known to be held. Redisson: what acquire returns.
func (h *Hold) PermitIDs() (ids []Owner) {
	if h.several() != nil {
		return nil
	}
	for _, id := range h.one.PermitIDs() {
		ids = append(ids, Owner{id})
	}
	return ids
}

// Context returns the context to do the work under. It is derived from the one that Lock was called with, and belongs to
// the owner of this hold: Lock of the same lock under it is reentrant. So goroutines that share it are all inside this
// lock; at every other lock they exclude each other. It ends when the hold is lost, with the [*LostError] as its cause,
// which matches [ErrLost]; with [ErrClosed] when the client is closed; and with [context.Canceled] at Unlock and Detach.
//
// A loss is told before the lease can run out in Redis. What ends the lock earlier is told after it: a forced unlock, a
// failover or restart that has lost it, a deleted key. A stopped process learns of a loss when it goes on. A deadline of
// the context that Lock was called with ends the work, too; [context.WithoutCancel] keeps the values.
func (h *Hold) Context() context.Context { return h.made().Context() }

// Deadline returns until when the hold may be trusted as things stand. The
// watchdog moves it; at the deadline the hold is lost. All holds of one owner at
// one lock share one deadline. Of a lost hold it is the last one; after Unlock it
// is the zero time.
//
// A hold that Lock had to wait for begins with a lease of up to 3 s. The watchdog requests the full lease 10 ms later, so within
// 20 ms and a round trip it has the deadline of any other hold. Bound work by [Hold.Context], not by a deadline that was read once.
func (h *Hold) Deadline() time.Time { return h.made().Deadline().Time() }

// Extend makes the lock live for at least d from now, and moves the deadline accordingly. It never shortens anything. The
// error matches [ErrLost] if the lock is gone, [ErrNotHeld] after Unlock, [ErrInvalid] if d is out of bounds or beyond
// [WithMaxHold], or if the semaphore ends before (its permits then last as long as it does), [*BackendError], ctx.Err()
// and its cause, or [ErrClosed]; the hold then stands as it was, or longer. Redisson: RLock.expire, which does not ask
// whose lock it is.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	d, err := checkLease(d)
	if err != nil {
		return err
	}
	return h.made().Extend(ctx, d)
}

// Unlock gives the hold back. It takes no context: a release that a cancelled context could stop would leave the lock to
// its lease. It returns within the client's timeout ([WithTimeout]).
//
// The hold's context ends first, and renewal stops before Redis is asked. When the owner's last hold goes, the release is
// announced, unless others hold the lock, too. The error matches
//   - [ErrLost] and [ErrNotHeld] if the lock was lost before; what may be left of it in Redis is removed in the
//     background;
//   - [ErrNotHeld] if this hold was unlocked before;
//   - [ErrUntold] if it was given back, but the Redis user may not publish, so those who wait were not told;
//   - [ErrClosed] if the client gave it back when it was closed;
//   - [*BackendError] if Redis did not answer in time, or refused. What may pass, as no answer or a READONLY, is
//     repeated in the background until the lease has ended; anything else only once
//     more, unless a read hold of the owner keeps the lock alive.
//
// Redisson: RLock.unlock.
func (h *Hold) Unlock() error {
	how, err := h.made().Unlock()
	if how == engine.EndedBefore || len(h.hooks) == 0 {
		return err
	}
	e := h.event()
	if how == engine.NotReleased {
		e.Err = err
	} else {
		e.HandedOver = how == engine.PassedOn
		h.hooks.tell(h.Context(), onRelease, e)
	}
	h.tellEnd(e)
	return err
}

// Detach ends the hold without releasing the lock, for Adopt to take it over in this or another process, under the owner
// that Detach returns: see [Owner.String]. Nobody renews the lock, so it is lost if it is not adopted within its lease.
// The hold's context ends, Unlock returns [ErrNotHeld], and Lock under the owner returns [ErrInvalid]. Of the hooks, OnEnd
// alone is told. Closing the client does not release what was detached.
//
// Detach waits, for the client's timeout at most, until no call for this hold is under way. The error matches
//   - [ErrReentrant] if the owner has other holds of the lock, nested ones or on the other side of a read-write lock,
//     or readers of this process share it for longer than the timeout; the hold stands;
//   - [ErrInvalid] if the hold is one of several locks, or of permits, or [MinHold] keeps it; the hold stands;
//   - [ErrLost], [ErrNotHeld] or [ErrClosed] if the hold is no more;
//   - [*BackendError] if a call for it got no answer by then; the hold stands.
func (h *Hold) Detach() (Owner, error) {
	switch {
	case h.several() != nil:
		return Owner{}, lockerr.Problem(h.Name(), "each of its parts has an owner", ErrInvalid)
	case h.handle.HoldRequests().Adopt(protocol.Acquire{}, "").IsZero():
		return Owner{}, lockerr.Problem(h.Name(), "its permits have ids and no owner", ErrInvalid)
	}
	owner, err := h.one.Detach()
	if err == nil {
		h.tellEnd(h.event())
	}
	return Owner{owner}, err
}

// event is what hooks are told of a hold.
func (h *Hold) event() Event {
	e := Event{Name: h.Name(), Token: h.Token(), Held: mono.Now().Sub(h.core.Since()), hold: h}
	if c := h.several(); c != nil {
		e.Kind = c.lock.label
	} else {
		e.Kind, e.lock = h.handle.Kind.Name, &h.handle.Lock
	}
	return e
}

// What the hooks know of a hold. Who sets the second of the two tells them of its end.
const (
	toldAcquired  = 1 << iota // they were told that it was acquired
	endedByItself             // it is lost, or its client has closed
)

// tellAcquired tells the hooks of a new hold, and of its end if that has come by itself meanwhile. If they panic,
// nobody gets it: it is given back.
func (h *Hold) tellAcquired(how report) {
	returned := false
	defer func() {
		if !returned {
			_, _ = h.core.Unlock() // what Redis does not answer to, the client goes on with
		}
	}()
	e := h.event()
	how.describe(&e)
	e.Held = 0
	h.hooks.tell(h.Context(), onAcquire, e)
	returned = true
	if h.told.Or(toldAcquired)&endedByItself != 0 {
		e := h.event()
		e.Err = h.core.Err()
		go h.tellEnd(e)
	}
}

// observer tells the hooks of a hold what happens to it by itself. It does not wait for them.
type observer Hold

var _ engine.Observer = (*observer)(nil)

// Waits tells the hooks that the acquire has to wait.
func (o *observer) Waits(ctx context.Context, ahead int, why error) {
	o.hooks.tell(ctx, onWait, Event{Name: o.handle.Name, Kind: o.handle.Kind.Name, Ahead: ahead, Err: why, lock: &o.handle.Lock})
}

// Renewed tells the hooks of a renewal.
func (o *observer) Renewed(err error) {
	h := (*Hold)(o)
	if h.hooks.want(onRenew) {
		e := h.event()
		e.Err = err
		go func() { h.hooks.tell(h.Context(), onRenew, e) }()
	}
}

// Ended tells the hooks that the hold has ended by itself: it is lost, or its client has closed. If they do not know of it
// yet, tellAcquired does.
func (o *observer) Ended(why error) {
	h := (*Hold)(o)
	if h.told.Or(endedByItself) == toldAcquired {
		e := h.event()
		e.Err = why
		go h.tellEnd(e)
	}
}

// tellEnd tells the hooks that the hold has ended, and before that, that it was lost if it was.
func (h *Hold) tellEnd(e Event) {
	if errors.Is(e.Err, ErrLost) {
		h.hooks.tell(h.Context(), onLost, e)
	}
	h.hooks.tell(h.Context(), onEnd, e)
}
