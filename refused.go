package holdfast

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file says what an acquire comes to: the hold (see granted.go), or the error, and what there is to clean up then.

// conclude makes of the last answer what the caller gets. changeSem is held, and freed
// or passed on.
func (a *acquisition) conclude(res call.Result, ch change) (*Hold, error) {
	if res.Has(script.Done) {
		return a.granted(res, ch)
	}
	if res.Has(script.Changed) {
		a.state.vanished() // nobody else changes this owner's count
		res.Err = a.state.whyLost()
	}
	todo := cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()}
	if a.received != nil {
		return a.concludeHandOver(todo)
	}
	a.state.reconcile(todo)
	switch {
	case res.Err != nil:
		return nil, a.failure(res)
	case res.Reply.Code == script.Upgrade:
		return nil, problem(a.kind.name, "this owner holds it for reading, and would wait for itself; give that back first", ErrReentrant)
	}
	return nil, a.refusal(res)
}

// refusal is the error for an answer that says no.
func (a *acquisition) refusal(res call.Result) error {
	if a.kind.refusal != nil {
		return a.kind.refusal(res.Reply)
	}
	return a.lockedError(res)
}

// mayBeRegistered reports whether Redis may know of a waiter.
func (a *acquisition) mayBeRegistered() bool {
	return a.registered && (a.refusedOnce || len(a.unknown) > 0)
}

// leaving is what takes the waiter out of Redis, if Redis may know of one.
func (a *acquisition) leaving() script.Request {
	if !a.mayBeRegistered() {
		return script.Request{}
	}
	return a.kind.requests.Leave(a.state.owner.String())
}

// lockedError says who holds the lock.
func (a *acquisition) lockedError(res call.Result) *LockedError {
	found := protocol.ReadRefusal(res.Reply)
	return &LockedError{Name: a.kind.name, Holder: Owner{found.Holder}, TTL: expiry(found.TTL)}
}

// lastTold is the last refusal or failure, which may be another's that waits here. Whether there may have been an effect
// is for all tries of this one.
func (a *acquisition) lastTold() error {
	failed, ok := a.last.(*BackendError) //nolint:errorlint // itself
	if !ok {
		return a.last
	}
	own := *failed
	own.MayHaveRun = len(a.unknown) > 0
	return &own
}

// failure is the error for a call that ended without an answer.
func (a *acquisition) failure(res call.Result) error {
	err := res.Err
	res.Unknown = a.unknown
	switch {
	case endedByCaller(a.caller): // else it is that of several locks, of which this is one
		return gaveUp(a.caller, a.kind.name)
	case errors.Is(err, ErrClosed) || a.shutdown.Err() != nil:
		return problem(a.kind.name, "", ErrClosed)
	case errors.Is(err, ErrNotHeld) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrReentrant):
		return err // a loss matches ErrNotHeld, too
	case errors.Is(err, errWaitOver) && a.last != nil && !res.HasReason():
		return a.lastTold()
	}
	return backendError(a.op, a.kind.name, res)
}
