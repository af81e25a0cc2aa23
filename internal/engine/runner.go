package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waiting"
)

// wait runs the state machine of a call that waits in the queue of this process: it reports what happens to the machine, and does
// what the machine says. It runs on the caller's goroutine. The documentation of package waiting describes it, under "The runner".
type wait struct {
	*asker

	m       waiting.Wait
	ahead   int            // how many waiters were ahead when it joined its queue
	request script.Request // what it sends; it may have an ID, so it stays the same
	res     call.Result    // of the last request; after another end, why the call ends
}

// policy returns how the call waits.
func (a *asker) policy() waiting.Policy {
	l, timeout := a.lock, a.engine.Timeout
	return waiting.Policy{
		Listens: true, Registers: l.Registers,
		LongestSleep: longestSleep, FailurePause: call.LongestPause, Outage: Outage * timeout,
		SharesFailureAt: mono.Now().Add(time.Until(a.started.Add(timeout / 2))),
	}
}

// wait waits behind the waiters of this process that came before, and then sends requests until one is granted.
func (a *asker) wait(args protocol.Acquire) call.Result {
	if a.stopping.Err() != nil {
		return call.Result{Err: lockerr.Closed}
	}
	w := &wait{asker: a, request: a.lock.Requests.Acquire(args)}
	ahead, first := a.engine.queues.Join(&a.waiter, a.lock.queueFor(args.Owner), nil, a.started)
	if first && len(a.unknown) == 0 && !a.refused { // no waiter has sent a request: the lock may well be free
		w.m = waiting.Begun(a.policy(), a.last != nil, "", 0)
		return w.run(w.outcome(a.caller, a.askBriefly(w.request)))
	}
	if first {
		a.waiter.Done() // Args.Waiter is told before the request
	}
	w.m, w.ahead = waiting.New(a.policy(), a.last != nil), ahead
	return w.run(nil)
}

// run waits until the call ends. The first event is nil if the wait begins behind others.
func (w *wait) run(e waiting.Event) call.Result {
	defer w.leave()
	if e == nil {
		e = w.await()
	}
	for {
		do := w.m.On(mono.Now(), e, w.lore())
		w.carryOut(do)
		switch {
		case w.m.State() >= waiting.Granted:
			return w.result()
		case do.Send != waiting.Nothing:
			e = w.send()
		default:
			e = w.await()
		}
	}
}

// leave leaves the queue, also if the WaitObserver has panicked.
func (w *wait) leave() {
	w.waiter.Leave()
	w.leaveDue = w.leaveDue || w.m.LeaveDue(len(w.unknown) > 0)
}

// lore returns what the heads of the queue have learnt.
func (w *wait) lore() waiting.Lore {
	now := time.Now()
	moment := func(t time.Time) mono.Time {
		if t.IsZero() {
			return 0
		}
		return mono.Of(now).Add(t.Sub(now))
	}
	at, refusal := w.waiter.Retry()
	return waiting.Lore{NotBefore: moment(w.waiter.NotBefore()), At: moment(at), InTouch: refusal != nil}
}

// carryOut does what the machine says, but for sending.
func (w *wait) carryOut(do waiting.Do) {
	if do.Listen != waiting.ListenAsBefore {
		w.waiter.Listen(do.Listen == waiting.ListenOn)
	}
	if do.Remember {
		w.waiter.RetryAt(w.m.Until().Time(), w.last)
	}
	if do.FreeSlot {
		w.freeSlot()
	}
	if do.PassOn {
		w.waiter.Notify()
	}
	if do.ShareFailure {
		w.waiter.Fail(w.res.Why())
	}
	if do.ReportOutage {
		w.engine.Failed(w.lock, "", w.backendError(w.res.Why()))
	}
}

// freeSlot frees the try slot once the outcome of the last attempt is known. After a reply that ends the wait, the waiter leaves
// its queue in the same step.
func (w *wait) freeSlot() {
	switch keeps := w.keepSlot(w.res); {
	case w.res.Err == nil && w.m.State() >= waiting.Granted:
		w.waiter.LeaveAfter(time.Now(), keeps, nil)
	case !keeps:
		w.waiter.Done()
	}
}

// result returns the result of a wait that has ended. Without a reply it includes what the queue knows of Redis: a request of an
// earlier head may have been without a reply for longer.
func (w *wait) result() call.Result {
	if w.res.Err == nil {
		return w.res
	}
	_, since, failing := w.waiter.GiveUp()
	if !since.IsZero() {
		w.res.Sent, w.res.LastFailure = mono.Of(since), cmp.Or(w.res.LastFailure, failing)
	}
	return w.res
}

// send sends a request, and returns its outcome.
func (w *wait) send() waiting.Event {
	ctx := w.bound()
	w.waiter.Asked(time.Now())
	return w.outcome(ctx, w.engine.Calls.Do(ctx, w.request, &w.waiter))
}

// outcome notes the result of a request under ctx, and returns the event that it is.
func (w *wait) outcome(ctx context.Context, res call.Result) waiting.Event {
	w.res, w.unknown = res, append(w.unknown, res.Unknown...)
	switch {
	case res.Err != nil:
		w.learnRefusal()
		if !passing(ctx, res) {
			return waiting.Failed{}
		}
		w.last = &failure{res.Why()}
		return waiting.Failed{Transient: true, Moving: moving(res.Why())}
	case res.Reply.Code == script.Refused:
		// An attempt past its cutoff is a no-op from now on, and this refusal shows that it was one before.
		w.unknown = slices.DeleteFunc(w.unknown, func(attempt *call.Attempt) bool { return attempt.Expiry() < res.Sent })
		w.last = w.refusal(res)
		return waiting.Refused{Retry: protocol.ReadRetry(res.Reply)}
	case res.Reply.Code == script.Done:
		return waiting.Acquired{}
	default:
		return waiting.Rejected{}
	}
}

// learnRefusal takes the last refusal of the queue for the call's own.
func (w *wait) learnRefusal() {
	if _, refusal := w.waiter.Retry(); refusal != nil {
		w.last = refusal
	}
}

// await waits for others, and returns what has happened. It is the only place where a call does so. Args.Waiter is told before.
func (w *wait) await() waiting.Event {
	w.tellWaiting(w.ahead)
	var head, wake <-chan struct{}
	var slot chan<- struct{}
	switch w.m.State() {
	case waiting.Behind:
		head = w.waiter.Head()
	case waiting.Due:
		slot = w.waiter.TrySlot()
	case waiting.Asleep:
		wake = w.waiter.Wake()
	default:
	}
	timer, stop := w.timer()
	defer stop()
	select {
	case <-head:
		if w.stopping.Err() == nil {
			return w.promoted()
		}
	case slot <- struct{}{}:
		return waiting.Slot{}
	case <-wake:
		return waiting.Woken{}
	case <-timer:
		if w.waitLeft() > 0 {
			return waiting.Timer{}
		}
	case <-w.caller.Done():
	case <-w.stopping.Done():
	}
	return w.ended()
}

// timer returns a channel that receives at Wait.Until or at the end of Args.Wait, whichever is earlier; nil if there is neither.
func (w *wait) timer() (timer <-chan time.Time, stop func()) {
	left := w.waitLeft()
	if at := w.m.Until(); !at.IsZero() {
		left = min(left, mono.Until(at))
	} else if w.args.Wait <= 0 {
		return nil, func() {}
	}
	t := time.NewTimer(left)
	return t.C, func() { t.Stop() }
}

// promoted takes over what the head before has left.
func (w *wait) promoted() waiting.Event {
	w.learnRefusal()
	why := w.waiter.TakeFailure()
	if why != nil {
		w.res = call.Result{Err: why} // unless the waiter tries for itself
	}
	return waiting.Head{Failed: why != nil}
}

// ended notes why the call ends between two requests.
func (w *wait) ended() waiting.Event {
	if w.m.State() == waiting.Behind {
		w.learnRefusal()
	}
	switch {
	case w.caller.Err() != nil:
		w.res = call.Result{Err: context.Cause(w.caller)}
	case w.stopping.Err() != nil:
		w.res = call.Result{Err: lockerr.Closed}
	default:
		w.res = call.Result{Err: ErrWaitOver}
	}
	return waiting.Ended{}
}
