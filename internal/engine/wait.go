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

// wait runs the state machine of a call that waits in the queue of this process: it reports to the machine what happens, and does
// what the machine says. It runs on the caller's goroutine. The documentation of package waiting describes it, under "The runner".
type wait struct {
	*blockingCall

	m        waiting.Wait
	request  protocol.Acquire
	ahead    int           // how many waiters were ahead when it joined its queue
	box      box           // for messages; nil behind others, and if there is no waitlist
	channel  *grantChannel // on which they come; nil before the first reply
	refusals int           // how many requests were refused
	res      call.Result   // of the last request; after another end, why the call ends
}

// waitBehind returns a wait behind other waiters of this process. It may be at the head of its queue already.
func waitBehind(a *blockingCall, request *protocol.Acquire, ahead int) *wait {
	return &wait{blockingCall: a, request: *request, m: waiting.New(policyOf(a, request.Grant()), a.last != nil), ahead: ahead}
}

// waitAfter returns the wait after a first request that was not granted. A request with an ID was sent at the time sent.
func waitAfter(a *blockingCall, request *protocol.Acquire, sent mono.Time, res *call.Result) *wait {
	w := &wait{blockingCall: a, request: *request, res: *res}
	w.m = waiting.Begun(policyOf(a, request.Grant()), a.last != nil, request.Number, sent)
	if w.box = w.newBox(); request.Number != "" {
		a.engine.mail.expect(w.box, request.Number)
	}
	return w
}

// newBox returns the box of a waiter that is at the head of its queue; nil if there is no waitlist.
func (w *wait) newBox() box {
	if !w.lock.listed() {
		return nil
	}
	return make(box, 1)
}

// run waits until the call ends.
func (w *wait) run() *call.Result {
	w.setWaiter(&w.waiter)
	defer w.leave()
	var e waiting.Event
	if w.m.State() == waiting.Requesting {
		e = w.outcome(w.caller)
	} else {
		e = w.await()
	}
	for {
		do := w.m.On(mono.Now(), e, w.lore())
		w.carryOut(do)
		switch {
		case w.m.State() >= waiting.Granted:
			return w.result()
		case do.Send != waiting.Nothing:
			e = w.send(do.Send)
		default:
			e = w.await()
		}
	}
}

// leave leaves the queue and the grant channel, also if the WaitObserver has panicked.
func (w *wait) leave() {
	if w.m.State() < waiting.Granted {
		w.carryOut(w.m.On(mono.Now(), waiting.Ended{}, waiting.Lore{}))
	}
	w.waiter.Leave()
	if w.channel != nil {
		w.channel.leave(w.box)
	}
	w.setWaiter(nil)
	w.leaveDue = w.leaveDue || w.m.LeaveDue(len(w.unknown) > 0)
}

// setWaiter notes at the owner's account how its call waits.
func (w *wait) setWaiter(waiter *waiter) {
	if w.account != nil {
		w.account.setWaiter(waiter)
	}
}

// lore returns what the heads of the queue have learnt.
func (w *wait) lore() waiting.Lore {
	l := w.waiter.Lore()
	return waiting.Lore{NotBefore: l.NotBefore, At: l.RetryAt, InTouch: l.Refusal != nil || !l.RetryAt.IsZero()}
}

// carryOut does what the machine says, but for sending.
func (w *wait) carryOut(do waiting.Do) {
	if len(do.Forget) > 0 {
		w.engine.mail.forget(w.box, do.Forget)
	}
	if do.Unsubscribed {
		w.channel.doubt()
	}
	if do.Listen != waiting.ListenAsBefore {
		w.waiter.Listen(do.Listen == waiting.ListenOn)
	}
	if do.Remember {
		w.remember()
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
	if do.CloseCohort {
		w.waiter.AskAll()
	}
	if do.ReportOutage {
		w.engine.Failed(w.lock, w.request.Owner, w.backendError(w.res.Why()))
	}
}

// remember notes for later heads when the next request is due, and what the last one has met. Before its first sleep, the waiter
// begins to receive messages.
func (w *wait) remember() {
	if w.box != nil && w.channel == nil {
		w.channel = w.engine.mail.join(w.lock, w.box, w.waiter.Notify)
	}
	w.waiter.RetryAt(w.m.Until(), w.last)
}

// freeSlot frees the try slot once the outcome of the last attempt is known. If a reply or a grant message ends the wait, the waiter
// leaves its queue in the same step.
func (w *wait) freeSlot() {
	if sent := w.m.GrantSent(); w.m.State() == waiting.Granted && !sent.IsZero() {
		w.res = call.Result{Reply: script.Reply{Code: script.Done}, Sent: sent}
		w.grant = w.request.Grant()
	}
	switch {
	case w.res.Err == nil && w.m.State() >= waiting.Granted:
		w.leaveAfter(&w.res)
	case !w.keepSlot(&w.res):
		w.waiter.Done()
	}
}

// result returns the result of a wait that has ended. Without a reply it includes what the queue knows of Redis: a request of an
// earlier head may have been without a reply for longer.
func (w *wait) result() *call.Result {
	if w.res.Err == nil {
		return &w.res
	}
	switch handedOver, since, failing := w.waiter.GiveUp(); {
	case handedOver:
		w.res = call.Result{Err: errHandedOver}
	case !since.IsZero():
		w.res.Sent, w.res.LastFailure = since, cmp.Or(w.res.LastFailure, failing)
	}
	return &w.res
}

// send sends a request, and returns its outcome.
func (w *wait) send(what waiting.Send) waiting.Event {
	ctx := w.bound()
	w.request.Number, w.request.Unlisted = "", w.lock.listed() && what == waiting.Plain
	if what == waiting.WithID {
		sent := w.number(&w.request)
		w.m.Sent(w.request.Number, sent)
		w.engine.mail.expect(w.box, w.request.Number)
	}
	if w.openAccount(w.request.Owner); w.account != nil {
		w.engine.Presence.WriteIfDue(mono.Now()) // a client that waits for long still has to be named
	}
	w.noteSent()
	w.waiter.Asked(mono.Now())
	w.res = w.engine.Calls.Do(ctx, w.lock.Requests.Acquire(w.request), &w.waiter)
	w.noteReply(&w.res)
	return w.outcome(ctx)
}

// outcome returns the event that the result of a request under ctx is, and notes what it says.
func (w *wait) outcome(ctx context.Context) waiting.Event {
	res := &w.res
	w.unknown = append(w.unknown, res.Unknown...)
	switch {
	case res.Err != nil:
		w.learnRefusal()
		if !passing(ctx, res) {
			return waiting.Failed{}
		}
		w.last = &failure{res.Why()}
		return waiting.Failed{Transient: true, Moving: moving(res.Why())}
	case res.Reply.Code == script.Refused:
		return w.wasRefused(res)
	case res.Reply.Code == script.Done:
		return waiting.Acquired{}
	default:
		return waiting.Rejected{}
	}
}

// passing reports whether a request under ctx failed transiently: Redis did not reply, or cannot serve it at the moment.
func passing(ctx context.Context, res *call.Result) bool {
	return ctx.Err() == nil && !OwnBound(res.Err) && res.WorthRepeating()
}

// wasRefused notes a refusal.
func (w *wait) wasRefused(res *call.Result) waiting.Event {
	// An attempt past its cutoff is a no-op from now on, and this refusal shows that it was one before.
	w.unknown = slices.DeleteFunc(w.unknown, func(attempt *call.Attempt) bool { return attempt.Expiry() < res.Sent })
	w.last = w.refusal(res)
	found := protocol.ReadRefusal(res.Reply)
	e := waiting.Refused{Retry: min(found.Retry, protocol.PlaceLives)} // after which its entry is stale
	switch {
	case w.lock.listed():
		e.Listed, e.New, e.Beside = found.Position >= 0, found.New, found.Beside
	case w.lock.Polling != nil:
		e.Retry = w.lock.Polling.Pause(w.refusals)
		w.refusals++
	}
	return e
}

// learnRefusal takes the last refusal of the queue for the call's own.
func (w *wait) learnRefusal() {
	if refusal := w.waiter.Lore().Refusal; refusal != nil {
		w.last = refusal
	}
}

// await waits for others, and returns what has happened. It is the only place where a call does so. Args.OnWait is told before.
func (w *wait) await() waiting.Event { //nolint:cyclop // the one select has a case for each channel
	w.tellWaiting(w.ahead)
	var head, wake, received <-chan struct{}
	var slot chan<- struct{}
	if w.m.State() == waiting.Behind {
		head = w.waiter.Head()
	} else {
		received = w.waiter.Received()
	}
	switch w.m.State() {
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
		return w.slotTaken()
	case <-wake:
		return waiting.Woken{}
	case message := <-w.box:
		return told(message)
	case <-timer:
		if w.left() > 0 {
			return waiting.Timer{}
		}
	case <-received:
		return w.received()
	case <-w.caller.Done():
	case <-w.stopping.Done():
	}
	return w.ended()
}

// timer returns a channel that receives at Wait.Until or at the end of Args.Wait, whichever is earlier; nil if there is neither.
func (w *wait) timer() (timer <-chan time.Time, stop func()) {
	left := w.left()
	if at := w.m.Until(); !at.IsZero() {
		left = min(left, mono.Until(at))
	} else if w.args.Wait <= 0 {
		return nil, func() {}
	}
	t := time.NewTimer(left)
	return t.C, func() { t.Stop() }
}

// promoted takes over what the head before has left, unless a hold was handed off to the waiter while it was behind others.
func (w *wait) promoted() waiting.Event {
	if w.waiter.HasReceived() {
		return w.received()
	}
	w.box = w.newBox()
	w.learnRefusal()
	why := w.waiter.TakeFailure()
	if why != nil {
		w.res = call.Result{Err: why} // unless the waiter sends a request
	}
	return waiting.Head{Failed: why != nil}
}

// slotTaken returns the event of a waiter that has the try slot. It puts a message into effect that came before.
func (w *wait) slotTaken() waiting.Event {
	if w.waiter.HasReceived() {
		w.waiter.Done()
		return w.received()
	}
	select {
	case message := <-w.box:
		w.m.On(mono.Now(), told(message), w.lore()) // which leaves it Due, with nothing to do
	default:
	}
	return waiting.Slot{Subscribed: w.hears()}
}

// told returns the event of a message.
func told(message protocol.Message) waiting.Event {
	if message.Granted {
		return waiting.Grant{ID: message.Number}
	}
	return waiting.Retry{ID: message.Number, After: message.After}
}

// received notes that a hold was handed off to the call.
func (w *wait) received() waiting.Event {
	w.res = call.Result{Err: errHandedOver}
	return waiting.Received{}
}

// ended notes why the call ends between two requests.
func (w *wait) ended() waiting.Event {
	if w.m.State() == waiting.Behind {
		w.learnRefusal()
	}
	if w.account != nil {
		w.account.noteRefusal(w.last)
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
