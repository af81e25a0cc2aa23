package engine

import (
	"errors"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// This file makes the errors of calls that wait.

// failure is a connection's failure, as a queue keeps it for all who wait.
type failure struct{ why error }

func (f *failure) Error() string { return f.why.Error() }

// refusal is the error for an answer that says no.
func (a *blockingCall) refusal(res call.Result) error {
	if a.lock.Refusal != nil {
		return a.lock.Refusal(res.Reply)
	}
	found := protocol.ReadRefusal(res.Reply)
	return a.engine.Errors.Locked(a.lock.Name, found.Holder, found.TTL)
}

// failure is the error for a call that ended without an answer.
func (a *blockingCall) failure(res call.Result) error {
	err := res.Err
	switch {
	case EndedByCaller(a.caller): // else it is that of several locks, of which this is one
		return a.engine.Errors.WithReason(ContextError(a.caller, a.lock.Name), a.lastKnown(&res))
	case errors.Is(err, lockerr.Closed) || a.stopping.Err() != nil:
		return lockerr.Problem(a.lock.Name, "", lockerr.Closed)
	case errors.Is(err, lockerr.NotHeld) || errors.Is(err, lockerr.Invalid) || errors.Is(err, lockerr.Reentrant):
		return err // a loss matches NotHeld, too
	case errors.Is(err, ErrWaitOver) && a.last != nil:
		return a.lastKnown(&res)
	}
	return a.backendError(res.Why())
}

// lastKnown returns the latest reason for the call's failure when a bound ends it: how Redis has failed since its last reply, or
// else the last refusal. It is nil if there is neither.
func (a *blockingCall) lastKnown(res *call.Result) error {
	if why := a.engine.noReply(a.caller, res, a.last == nil); why != nil {
		return a.backendError(why)
	}
	return a.explained(a.last)
}

// explained converts a failure of Redis into the error for users, and returns other errors as they are.
func (a *blockingCall) explained(err error) error {
	if failed, ok := err.(*failure); ok { //nolint:errorlint // itself
		return a.backendError(failed.why)
	}
	return err
}

// backendError is the error for a failure of Redis. Whether there may have been an effect is for all tries of this call.
func (a *blockingCall) backendError(why error) error {
	return a.engine.Errors.Backend(a.op, a.lock.Name, len(a.unknown) > 0, ForUser(why))
}

// ForUser returns what users are told in the place of the end of a bound of ours; other errors as they are.
func ForUser(err error) error {
	if OwnBound(err) {
		return call.ErrNoAnswer
	}
	return err
}

// moving reports whether a cluster has refused a call because it is moving its keys.
func moving(err error) bool { return call.Code(err) == "TRYAGAIN" }
