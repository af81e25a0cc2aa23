package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// blockingCall requests a lock until it is granted, or the call ends. It is an acquire, or leaves no hold.
type blockingCall struct {
	span
	target
	progress

	lock   *Lock
	engine *Engine
	args   Args
	op     string        // for errors
	lease  time.Duration // that it requests

	taker  *Hold  // the hold to acquire if the lock may be handed off to it, or if it may join a cohort; nil: neither
	queue  *queue // waits for the hold to be handed off; nil if none does
	waiter waiter // in the queue of this process
}

// target is the owner that a call is for, and what it is to have. It is empty if the call has no owner, and before the first request
// for a fresh one.
type target struct {
	account *account
	side    *side         // the one to acquire
	change  ledger.Change // what is to be requested of it
	known   *side         // the side of an owner who was known before the call; nil if the owner is fresh
}

// progress is what has come of a call so far.
type progress struct {
	unknown   []*call.Attempt // whose result is not known
	last      error           // the last refusal or failure: the error when the wait is over
	hadToWait bool            // Args.OnWait was told
	grant     time.Duration   // how long it was granted by a grant message; 0 if it was not
	leaveDue  bool            // a wait may have left something in Redis
}

func newBlockingCall(ctx context.Context, l *Lock, op string, args *Args) blockingCall {
	b := blockingCall{span: span{started: time.Now(), limit: args.Wait, caller: ctx}, lock: l, engine: l.Engine, args: *args, op: op}
	if args.OneTry {
		b.limit = l.Engine.Timeout + l.Engine.AckTimeout
	}
	return b
}

// tellWaiting tells Args.OnWait, once, that the call has to wait.
func (a *blockingCall) tellWaiting(ahead int) {
	if a.hadToWait {
		return
	}
	a.hadToWait = true
	if a.args.OnWait != nil {
		a.args.OnWait.Waits(a.caller, ahead, a.whyWaiting())
	}
}

// whyWaiting is the last refusal or failure of this call, or of the queue that it waits in; nil if there is none.
func (a *blockingCall) whyWaiting() error {
	why := a.last
	if why == nil {
		why = a.waiter.Lore().Refusal
	}
	return a.explained(why)
}

// askBriefly sends a request, without bound if the first attempt is answered.
func (a *blockingCall) askBriefly(request *protocol.Acquire) (res call.Result) {
	patience := min(a.engine.Timeout/3, a.left())
	if patience <= 0 {
		return call.Result{Err: ErrWaitOver}
	}
	ctx := a.caller
	if a.bounded != nil {
		ctx = a.bounded
	}
	a.openAccount(request.Owner)
	a.noteSent()
	res = a.engine.Calls.DoBriefly(ctx, patience, a.bound, a.lock.Requests.Acquire(*request), &a.waiter)
	a.noteReply(&res)
	return res
}

// openAccount makes the account of a fresh owner before the first request. A waiter that is handed a hold needs none.
func (a *blockingCall) openAccount(owner string) {
	if a.account != nil || owner == "" {
		return
	}
	a.account = a.engine.account(a.lock, claim{owner: owner, fresh: true})
	a.side = &a.account.first
	a.account.mu.Lock()
	defer a.account.mu.Unlock()
	a.change, _, _ = a.side.Next() // the one that free asks for; a run begins
}

// noteSent notes that a request is under way that may let the key live for the lease; noteReply, that it is over. Of a fresh owner that is
// noted at the end: no other call looks at its account before.
func (a *blockingCall) noteSent() {
	if a.known != nil {
		a.known.noteSent(a.lease)
	}
}

func (a *blockingCall) noteReply(res *call.Result) {
	if a.known != nil {
		a.known.noteReply(a.lease, res.Err == nil && len(res.Unknown)+len(a.unknown) == 0)
	}
}

// number gives a request a random ID. It returns the time before the first attempt, from which a grant counts.
func (a *blockingCall) number(request *protocol.Acquire) (sent mono.Time) {
	request.Number, request.Scattered = rand.Text(), a.engine.Calls.Slotted()
	return mono.Now()
}

// hears reports whether the client receives grant messages for the lock.
func (a *blockingCall) hears() bool { return a.lock.listed() && a.engine.mail.reaches(a.lock) }

// leaveAfter leaves the queue after a reply that ends the wait. If the lock was granted and may be handed off, the waiters behind wait
// for that instead of sending requests.
func (a *blockingCall) leaveAfter(res *call.Result) {
	var holder waitqueue.Holder
	if a.taker != nil && res.Has(script.Done) {
		holder = &a.account.first
	}
	next := res.Sent // at once: it may be granted the lock as well, or is to get an entry on the waitlist
	if a.lock.Polling != nil {
		next = mono.Now().Add(a.lock.Polling.Pause(0))
	}
	a.queue = a.waiter.LeaveAfter(next, a.keepSlot(res), holder)
}

// keepSlot keeps the try slot until the outcome of the last attempt is known, if that was given up. It reports whether it does.
func (a *blockingCall) keepSlot(res *call.Result) bool {
	n := len(res.Unknown)
	if n == 0 || !res.Unknown[n-1].Pending() {
		return false
	}
	last := res.Unknown[n-1]
	return a.engine.Tasks.Go(func() {
		defer a.waiter.Done()
		a.engine.Calls.Outcome(a.engine.Life, last)
		if last.Answered() { // else the next one that gives up would say that Redis has been silent since
			a.waiter.Answered()
		}
	})
}

// failure is a connection's failure, as a queue keeps it for all who wait.
type failure struct{ why error }

func (f *failure) Error() string { return f.why.Error() }

// refusal is the error for an answer that says no.
func (a *blockingCall) refusal(res *call.Result) error {
	if a.lock.Refuser != nil {
		return a.lock.Refuser.Refusal(res.Reply)
	}
	found := protocol.ReadRefusal(res.Reply)
	return a.engine.Errors.Locked(a.lock.Name, found.Holder, found.TTL)
}

// failure is the error for a call that ended without an answer.
func (a *blockingCall) failure(res *call.Result) error {
	err := res.Err
	switch {
	case EndedByCaller(a.caller): // else it is that of several locks, of which this is one
		return a.engine.Errors.WithReason(ContextError(a.caller, a.lock.Name), a.lastKnown(res))
	case errors.Is(err, lockerr.Closed) || a.stopping.Err() != nil:
		return lockerr.Problem(a.lock.Name, "", lockerr.Closed)
	case errors.Is(err, lockerr.NotHeld) || errors.Is(err, lockerr.Invalid) || errors.Is(err, lockerr.Reentrant):
		return err // a loss matches NotHeld, too
	case errors.Is(err, ErrWaitOver) && a.last != nil:
		return a.lastKnown(res)
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
