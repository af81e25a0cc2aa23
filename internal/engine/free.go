package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file is the way of a free lock up to its one request, and the one way from there into waiting.

// Acquire acquires a lock, as a hold that the caller has allocated. If it returns an error, or panics since the WaitObserver has, the
// hold is of no use, and what an attempt may have taken is given back in the background.
func (l *Lock) Acquire(ctx context.Context, h *Hold, args *Args) (Report, error) {
	a := newAcquisition(ctx, l, h, OpAcquire, args)
	var err error
	if a.claim, err = claimFor(ctx, l); err != nil {
		return Report{}, err
	}
	if a.claim.fresh {
		return a.report(a.free())
	}
	return a.report(a.do((*acquisition).obtain))
}

// Adopt is Acquire of what another owner holds, in the place of that.
func (l *Lock) Adopt(ctx context.Context, h *Hold, owner, shown string, args *Args) (Report, error) {
	a := newAcquisition(ctx, l, h, "adopt", args)
	a.claim = claim{owner: l.Engine.freshOwner(), fresh: true}
	return a.report(a.do(func(a *acquisition) call.Result { return a.adopt(owner, shown) }))
}

// free acquires the lock for a new owner, as most calls do.
func (a *acquisition) free() error {
	l, e := a.lock, a.engine
	if err := e.begin(a.caller, a.op, l.Name); err != nil {
		return err
	}
	defer e.Tasks.End()
	e.Presence.WriteIfDue(mono.Of(a.started))
	if (l.handsOff() || l.SharesHolds) && a.ordinary() {
		a.taker = a.hold
	}
	if a.shares() && a.taker.joinOthers() {
		return nil
	}
	if e.Draining.Err() != nil {
		return lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	a.stopping, a.change, a.asking = e.Draining, ledger.Change{To: 1}, true
	defer a.end()
	request := a.wanted()
	res, wait := a.ask(&request)
	if wait != nil {
		return a.conclude(wait.run())
	}
	return a.conclude(&res)
}

// ask sends a request. If the call has to wait in the queue of this process, it returns the wait instead of a result: the caller runs it,
// so that a goroutine that waits does not keep the stack of its first request.
func (a *blockingCall) ask(request *protocol.Acquire) (res call.Result, w *wait) {
	refused := false
	if !request.Waiting || a.triesUnqueued() {
		res = a.tryAlone(request)
		refused = res.Has(script.Refused)
		if !request.Waiting || !refused && !moving(res.Why()) {
			return res, nil
		}
		if a.stopping.Err() != nil {
			return call.Result{Err: lockerr.Closed}, nil
		}
	}
	ahead, first := a.join(request.Owner)
	if !first {
		return res, waitBehind(a, request, ahead)
	}
	if refused || len(a.unknown) > 0 {
		a.waiter.Answered() // nothing is under way until Args.OnWait has been told
		a.waiter.Done()
		return res, waitBehind(a, request, ahead)
	}
	var sent mono.Time
	if a.hears() {
		sent = a.number(request)
	}
	res = a.askBriefly(request)
	if !res.Has(script.Done) || len(res.Unknown) > 0 {
		return res, waitAfter(a, request, sent, &res)
	}
	a.leaveAfter(&res)
	return res, nil
}

// askAndWait is ask, and runs the wait if there is one.
func (a *blockingCall) askAndWait(request *protocol.Acquire) call.Result {
	res, wait := a.ask(request)
	if wait != nil {
		return *wait.run()
	}
	return res
}

// join joins the queue of an owner. If first is set, nobody here is in the way, and no request was sent for the queue.
func (a *blockingCall) join(owner string) (ahead int, first bool) {
	now := a.started
	if a.bounded != nil { // it may have waited for its owner's earlier call
		now = time.Now()
	}
	return a.engine.queues.Join(&a.waiter, a.lock.queueFor(owner), a.taker, mono.Of(now))
}

// triesUnqueued reports whether to try once before queueing.
func (a *blockingCall) triesUnqueued() bool {
	l := a.lock
	switch {
	case l.Mode != "" && a.known != nil: // the owner may hold the other side
		return true
	case l.SharesHolds && a.taker != nil:
		return false // one asks, and lets the others in
	case l.Shared && a.hears():
		return a.engine.queues.HeadHasNoReply(l.queueFor("")) // the head is listed at once; the others need not wait for its reply
	}
	// A latch that is waited for is not changed; a semaphore's permits are shared, as long as nobody waits here.
	return l.ReadOnly || l.Shared && !a.engine.queues.HasWaiters(l.queueFor(""))
}

// tryAlone sends a request without queueing. What its refusal says is noted for the next.
func (a *blockingCall) tryAlone(request *protocol.Acquire) (res call.Result) {
	alone := *request
	alone.Waiting = false // it may still have to queue behind others of this process
	res = a.askBriefly(&alone)
	a.unknown = append(a.unknown, res.Unknown...)
	if request.Waiting && res.Has(script.Refused) {
		a.last = a.refusal(&res)
		if a.lock.ReadOnly {
			_, request.Since, _ = protocol.ReadCount(res.Reply) // so that a zero between two requests is not missed
		}
	}
	return res
}
