package engine

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// WaitObserver is told, on the calling goroutine, that a call begins to wait, how many are ahead, and why it waits, or nil if
// that is not known. It may panic.
type WaitObserver interface {
	Waits(ctx context.Context, ahead int, why error)
}

// Args are what a call asks for.
type Args struct {
	Lease time.Duration
	// Fixed says that the lease is not renewed. RenewFirst renews it all the same until [Hold.FixLease]: the hold is one of
	// several, and the others are still to be had. Cuts says to cut it to what MaxHold leaves; else a longer one is an error.
	Fixed, RenewFirst, Cuts bool
	// MinHold is how long others do not get the lock, whoever unlocks it. AtLeast is the least time to live to ask for.
	MinHold, AtLeast time.Duration
	// Wait bounds the call; 0: it is unbounded. OneTry says that there is no waiting at all.
	Wait   time.Duration
	OneTry bool
	// Waiter is told that the call begins to wait; nil: nobody is.
	Waiter WaitObserver
}

// Retained is for how long a lock is kept from others, by itself or as one of several.
func (g *Args) Retained() time.Duration { return max(g.MinHold, g.AtLeast) }

// Report is how a call went.
type Report struct {
	// HadToWait says that Args.Waiter was told, or would have been.
	HadToWait bool
	// HandedOver says that the hold passed inside the process, without a word to Redis.
	HandedOver bool
}

// asker asks Redis for a lock until the answer is yes, or it gives up. It is one call, of an acquire, or of what leaves no
// hold.
type asker struct {
	lock      *Lock
	engine    *Engine
	args      Args
	op        string // for errors
	started   time.Time
	caller    context.Context // lives as long as the call
	stopping  context.Context // ends it, too: draining, or closing if it nests in what goes on
	bounded   context.Context // see bound; nil: it was not needed
	stop      func()          // ends bounded
	hadToWait bool            // Args.Waiter was told

	// account is the owner's; nil if the call has no owner.
	account *account
	// known is the side that the account had before the call; nil if the owner is fresh, or there is none.
	known *side
	// taker is the hold to acquire if the lock may be handed off to it, or if it may join a cohort; nil: neither.
	taker *Hold
	// queue waits for the hold to be handed off; nil if none does.
	queue   *queue
	lease   time.Duration   // that it requests
	grant   time.Duration   // how long it was granted by a grant message; 0 if it was not
	unknown []*call.Attempt // whose result is not known
	// last is the last refusal or failure: the error when the wait is over.
	last   error
	waiter waiter // in the queue of this process
	// leaveDue says that a wait may have left something in Redis.
	leaveDue bool
}

// bound returns the context that bounds the whole call. It is made when it is needed first: a free lock does not need it.
func (a *asker) bound() context.Context {
	if a.bounded != nil {
		return a.bounded
	}
	ctx, cancel := context.WithCancelCause(a.caller)
	unregister := context.AfterFunc(a.stopping, func() { cancel(lockerr.Closed) })
	if a.stopping.Err() != nil {
		cancel(lockerr.Closed) // at once: AfterFunc does it in a goroutine of its own
	}
	stopTimer := func() bool { return false }
	if limit := a.timeLimit(); limit > 0 {
		stopTimer = time.AfterFunc(time.Until(a.started.Add(limit)), func() { cancel(ErrWaitOver) }).Stop
	}
	a.bounded, a.stop = ctx, func() { unregister(); stopTimer(); cancel(nil) }
	return ctx
}

// unbound ends what bound has begun.
func (a *asker) unbound() {
	if a.stop != nil {
		a.stop()
	}
}

// timeLimit is how long the call may take; 0: no bound.
func (a *asker) timeLimit() time.Duration {
	if a.args.OneTry {
		return a.engine.Timeout + a.engine.AckTimeout
	}
	return a.args.Wait
}

// waitLeft is what is left of Args.Wait.
func (a *asker) waitLeft() time.Duration {
	if a.args.Wait <= 0 {
		return math.MaxInt64
	}
	return time.Until(a.started.Add(a.args.Wait))
}

// tellWaiting tells Args.Waiter, once, that the call has to wait.
func (a *asker) tellWaiting(ahead int) {
	if a.hadToWait {
		return
	}
	a.hadToWait = true
	if a.args.Waiter != nil {
		a.args.Waiter.Waits(a.caller, ahead, a.whyWaiting())
	}
}

// whyWaiting is the last refusal or failure of this call, or of the queue that it waits in; nil if there is none.
func (a *asker) whyWaiting() error {
	why := a.last
	if why == nil {
		why = a.waiter.Lore().Refusal
	}
	return a.explained(why)
}

// askBriefly sends a request, without bound if the first attempt is answered.
func (a *asker) askBriefly(request protocol.Acquire) call.Result {
	patience := a.engine.Timeout / 3
	if limit := a.timeLimit(); limit > 0 {
		if patience = min(patience, time.Until(a.started.Add(limit))); patience <= 0 {
			return call.Result{Err: ErrWaitOver}
		}
	}
	ctx := a.caller
	if a.bounded != nil {
		ctx = a.bounded
	}
	a.asked()
	res := a.engine.Calls.DoBriefly(ctx, patience, a.bound, a.lock.Requests.Acquire(request), &a.waiter)
	a.answered(res)
	return res
}

// asked notes that a request is under way that may let the key live for the lease; answered, that it is over. Of a fresh owner that is
// noted at the end: no other call looks at its account before.
func (a *asker) asked() {
	if a.known != nil {
		a.known.asked(a.lease)
	}
}

func (a *asker) answered(res call.Result) {
	if a.known != nil {
		a.known.answered(a.lease, res.Err == nil && len(res.Unknown)+len(a.unknown) == 0)
	}
}

// leaving is what takes the waiter out of Redis, if Redis may know of one.
func (a *asker) leaving(owner string) script.Request {
	if !a.leaveDue {
		return script.Request{}
	}
	return a.lock.Requests.Leave(owner)
}

// refusal is the error for an answer that says no.
func (a *asker) refusal(res call.Result) error {
	if a.lock.Refusal != nil {
		return a.lock.Refusal(res.Reply)
	}
	found := protocol.ReadRefusal(res.Reply)
	return a.engine.Errors.Locked(a.lock.Name, found.Holder, found.TTL)
}

// failure is the error for a call that ended without an answer.
func (a *asker) failure(res call.Result) error {
	err := res.Err
	switch {
	case EndedByCaller(a.caller): // else it is that of several locks, of which this is one
		return a.engine.Errors.GaveUp(GaveUp(a.caller, a.lock.Name), a.lastKnown(&res))
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
func (a *asker) lastKnown(res *call.Result) error {
	if why := a.engine.noReply(a.caller, res, a.last == nil); why != nil {
		return a.backendError(why)
	}
	return a.explained(a.last)
}

// explained converts a failure of Redis into the error for users, and returns other errors as they are.
func (a *asker) explained(err error) error {
	if failed, ok := err.(*failure); ok { //nolint:errorlint // itself
		return a.backendError(failed.why)
	}
	return err
}

// backendError is the error for a failure of Redis. Whether there may have been an effect is for all tries of this call.
func (a *asker) backendError(why error) error {
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

// passed is what comes of the last answer.
func (a *asker) passed(res call.Result) error {
	done := res.Has(script.Done)
	unsafe := done && !a.lock.ReadOnly && res.Acknowledged < a.engine.Replicas
	if done && !unsafe {
		return nil
	}
	a.undo(unsafe)
	switch {
	case unsafe:
		return a.engine.notReplicated(a.lock.Name, res)
	case res.Err != nil:
		return a.failure(res)
	default:
		return a.refusal(res)
	}
}

// undo takes back, in the background, what a call that failed has taken, or may have.
func (a *asker) undo(taken bool) {
	if release := a.lock.Requests.Release("", 1, 0); (len(a.unknown) > 0 || taken) && !release.IsZero() {
		a.lock.retryInBackground("release", release)
		return
	}
	if leave := a.lock.Requests.Leave(""); a.leaveDue && !leave.IsZero() {
		a.lock.retryInBackground("leave", leave)
	}
}
