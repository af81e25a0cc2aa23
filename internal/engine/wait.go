package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// longestSleep is how long the head of a queue sleeps between two tries when nothing wakes it: what a lost message can cost. Who
// stands in line is told.
const longestSleep = 3 * time.Second

// queued is a call that waits in the queue of this process, and asks as its head. A try is one question and its
// answer; an attempt is one of the sends that it takes until there is an answer.
type queued struct {
	*asker

	args     protocol.Acquire
	request  script.Request // made of args when it is sent first
	refusals int            // how often it was refused
	away     time.Time      // since when Redis has not answered; zero if it did
	result   call.Result    // of the last try
	place    place          // in the line in Redis
}

// waitInQueue waits behind those of this process who came before, and then asks until the lock is acquired.
func (a *asker) waitInQueue(args protocol.Acquire) call.Result {
	if a.acquisition == nil {
		return a.wait(args)
	}
	if a.stopping.Err() != nil {
		return call.Result{Err: lockerr.Closed}
	}
	q := &a.queued
	q.asker, q.args = a, args
	var taker *acquisition
	if a.acquisition.joinsCohort() {
		taker = a.acquisition
	}
	ahead, first := a.engine.queues.Join(&q.waiter, a.lock.queueFor(args.Owner), taker, a.started)
	if first && len(a.unknown) == 0 && !a.refused { // nobody has asked, or waits: the lock may well be free
		q.prepare()
		if res := a.askBriefly(q.request); !q.learn(a.caller, res) {
			return res
		}
		return q.wait(0)
	}
	if first {
		q.waiter.Done() // Args.Waiter is told before the try
	}
	return q.wait(ahead)
}

// wait waits in the queue, after the first try if there was one.
func (q *queued) wait(ahead int) call.Result {
	defer q.waiter.Leave()
	defer q.place.leave()
	q.tellWaiting(ahead)
	q.acquisition.account.setWaiter(&q.waiter)
	defer q.acquisition.account.setWaiter(nil)
	head := q.awaitHead()
	if why := q.sharedFailure(head); why != nil {
		return call.Result{Err: why}
	}
	if !head || !q.askUntilDone(q.bound()) {
		q.acquisition.account.gaveUp(q.last)
		return q.giveUp(call.Result{})
	}
	return q.result
}

// sharedFailure is why the head before has given up, if this one has waited through most of that: it gives up, too. Else it asks, and
// what the one before has met is forgotten: Redis may answer by now.
func (q *queued) sharedFailure(head bool) error {
	if !head {
		return nil
	}
	why := q.waiter.TakeFailure()
	if why == nil || time.Since(q.started) < q.engine.Timeout/2 {
		return nil
	}
	q.waiter.Fail(why) // for the next one
	return why
}

// askUntilDone asks whenever a try is due. It reports false if ctx has ended that, or the lock was handed over.
func (q *queued) askUntilDone(ctx context.Context) bool {
	for q.await(ctx) {
		if !q.try(ctx) {
			return true
		}
	}
	return false
}

// awaitHead waits until the waiter is at the head of the queue. It reports false if its time is over before that, or it was
// handed the lock.
func (q *queued) awaitHead() bool {
	caller, stopping := q.caller.Done(), q.stopping.Done()
	if q.asker.args.Wait > 0 || q.bounded != nil { // else the context that bounds the call is not needed yet
		caller, stopping = q.bound().Done(), nil
	}
	var tired <-chan time.Time
	if q.lock.SharesHolds {
		timer := time.NewTimer(min(longestClosed, q.timeLeft()/4))
		defer timer.Stop()
		tired = timer.C
	}
	for waiting := true; waiting; {
		select {
		case <-q.waiter.Head():
			if q.stopping.Err() == nil {
				return true
			}
			waiting = false
		case <-q.waiter.Received():
			return false
		case <-tired:
			q.waiter.AskAll()
		case <-caller:
			waiting = false
		case <-stopping:
			waiting = false
		}
	}
	_, q.last = q.waiter.Retry()
	<-q.bound().Done()
	return false
}

// timeLeft is for how long the call may still wait.
func (q *queued) timeLeft() time.Duration {
	left := q.waitLeft()
	if deadline, ok := q.caller.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return left
}

// await waits until the queue's head should try: see due. It reports false if ctx ends first, or it was handed the lock.
func (q *queued) await(ctx context.Context) bool {
	if !q.due(ctx) {
		if !q.away.IsZero() {
			q.waiter.Notify() // the last try used up a wake-up and got no reply
		}
		return false
	}
	if others := q.waiter.NotBefore(); !others.IsZero() && q.pause(ctx, others, nil) == pauseOver {
		q.waiter.Notify() // the wake-up that brought us here
		return false
	}
	select {
	case q.waiter.TrySlot() <- struct{}{}:
		if q.waiter.HasReceived() {
			q.waiter.Done()
			q.waiter.Notify() // the wake-up that brought us here
			return false
		}
		return true
	case <-q.waiter.Received():
	case <-ctx.Done():
	}
	q.waiter.Notify() // the wake-up that brought us here
	return false
}

// due waits until a try is due: nobody has tried yet, something was heard, or the time has come. It reports false if ctx ends first,
// or it was handed the lock.
func (q *queued) due(ctx context.Context) bool {
	for {
		at, last := q.waiter.Retry()
		if last != nil {
			q.last = last
		}
		if at.IsZero() || q.lock.Line && !q.place.joined() { // what the head before was told is about another place
			return true
		}
		if q.lock.Polling == nil {
			q.waiter.Listen(q.place.listens()) // before every sleep: the one before may have had no need to
		}
		end := q.pause(ctx, at, q.waiter.Wake())
		if end == pauseOver {
			return false
		}
		later := q.place.askLater()
		if end != pauseTold || later == 0 {
			return true
		}
		if next := time.Now().Add(later); next.Before(at) { // else whoever repeats the message could keep it asleep
			q.waiter.RetryAt(next, nil)
		}
	}
}

// pauseEnd is why a pause has ended.
type pauseEnd int

const (
	pauseTimedOut pauseEnd = iota
	pauseWoken             // something was received before
	pauseTold              // a grant may have come, or another word to who stands in line
	pauseOver              // ctx has ended, or the waiter was handed the lock
)

// pause waits until a time, or until early receives.
func (q *queued) pause(ctx context.Context, until time.Time, early <-chan struct{}) pauseEnd {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-early:
		return pauseWoken
	case message := <-q.place.box:
		q.place.note(message)
		return pauseTold
	case <-timer.C:
		return pauseTimedOut
	case <-q.waiter.Received():
	case <-ctx.Done():
	}
	return pauseOver
}

// try asks once. What comes of it is known though ctx ends. It reports whether to ask again.
func (q *queued) try(ctx context.Context) (again bool) {
	if res, granted := q.granted(); granted {
		return q.learn(ctx, res)
	}
	q.prepare()
	q.asked()
	q.engine.Presence.WriteIfDue(mono.Now()) // who waits for long is still to be named
	q.waiter.Asked(time.Now())
	res := q.engine.Calls.Do(ctx, q.request, &q.waiter)
	q.answered(res)
	return q.learn(ctx, res)
}

// prepare makes the request of the next try.
func (q *queued) prepare() {
	e, p := q.engine, &q.place
	if !q.lock.Line && !q.request.IsZero() {
		return // it may have an id, so it stays what it is
	}
	q.args.Number = ""
	if q.lock.Line && e.mail.reaches(q.lock) {
		q.args.Number, q.args.Scattered = rand.Text(), e.Calls.Slotted()
		if p.asks == nil {
			p.asks = p.room[:0]
		}
		p.asks = append(p.asks, ask{q.args.Number, mono.Now()})
	}
	q.registered = q.registered || q.args.Number != "" || q.lock.Registers
	q.request = q.lock.Requests.Acquire(q.args)
}

// learn notes what a try says about the next one, and gives the try slot back. It reports whether to ask again; if not, the
// waiter has left.
func (q *queued) learn(ctx context.Context, res call.Result) (again bool) {
	q.unknown = append(q.unknown, res.Unknown...)
	q.result = res
	if res.Err == nil && !res.Has(script.Refused) {
		q.leaveAfter(res)
		return false
	}
	if !q.keepSlot(res) {
		q.waiter.Done()
	}
	switch {
	case res.Err == nil:
		q.away = time.Time{}
		q.noteRefusal(res)
		q.tellWaiting(0)
		return true
	case q.retriesAfter(ctx, res):
		q.place.join(q)
		q.waiter.RetryAt(time.Now().Add(call.LongestPause), q.last)
		q.tellWaiting(0)
		return true
	default:
		q.waiter.Notify() // for the next in the queue: this try has learnt nothing
		if passing(ctx, res) {
			q.waiter.Fail(res.Why())
		}
		q.result = q.giveUp(res)
		return false
	}
}

// giveUp leaves the queue. It adds the queue's knowledge of Redis to the result of the last request, if there was one: a request of
// an earlier head may have been without a reply for longer.
func (q *queued) giveUp(res call.Result) call.Result {
	handedOver, since, failing := q.waiter.GiveUp()
	if handedOver {
		return call.Result{Err: errHandedOver}
	}
	if res.Err == nil {
		res.Err = context.Cause(q.bound())
	}
	if !since.IsZero() {
		res.Sent, res.LastFailure = mono.Of(since), cmp.Or(res.LastFailure, failing)
	}
	return res
}

// passing reports whether a try under ctx failed transiently: Redis did not reply, or cannot serve the request at the moment.
func passing(ctx context.Context, res call.Result) bool {
	return ctx.Err() == nil && !OwnBound(res.Err) && res.WorthRepeating()
}

// leaveAfter leaves the queue after an answer that ends the call. If the lock was granted and may pass on, those behind it
// wait for that instead of asking.
func (q *queued) leaveAfter(res call.Result) {
	var holder waitqueue.Holder
	a := q.acquisition
	if res.Has(script.Done) && a.joinsCohort() {
		holder = a.side
	}
	a.queue = q.waiter.LeaveAfter(time.Now().Add(q.afterMe()), q.keepSlot(res), holder)
}

// keepSlot keeps the try slot until the outcome of the last attempt is known, if that was given up. It reports whether it
// does.
func (a *asker) keepSlot(res call.Result) bool {
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

// noteRefusal notes who holds the lock, and when to ask again at the latest.
func (q *queued) noteRefusal(res call.Result) {
	// An attempt past its limit has no effect any more, and this refusal shows that it had none before.
	q.unknown = slices.DeleteFunc(q.unknown, func(attempt *call.Attempt) bool { return attempt.Expiry() < res.Sent })
	q.last, q.refused = q.refusal(res), true
	sleep, retry := longestSleep, protocol.ReadRetry(res.Reply)
	if stands := q.place.refused(q, res.Reply); stands || q.lock.AlwaysStands {
		sleep = retry
	} else if retry >= 0 { // else what it waits for does not expire
		sleep = min(sleep, retry)
	}
	if q.lock.Polling != nil {
		sleep = q.lock.Polling.Pause(q.refusals)
		q.refusals++
	}
	q.waiter.RetryAt(time.Now().Add(sleep), q.last)
}

// afterMe is when the next waiter should try, if nothing wakes it, after this one has been let in.
func (q *queued) afterMe() time.Duration {
	switch {
	case q.lock.Shared, q.lock.Line: // it may be let in, too, or is to stand in line
		return 0
	case q.lock.Polling != nil:
		return q.lock.Polling.Pause(0)
	default:
		return min(q.args.Lease, longestSleep)
	}
}

// retriesAfter reports whether to go on after a call that failed. A waiter that Redis never
// answered gives up: its address may be wrong.
func (q *queued) retriesAfter(ctx context.Context, res call.Result) bool {
	if _, last := q.waiter.Retry(); last != nil {
		q.last = last
	}
	if !passing(ctx, res) {
		return false
	}
	inTouch := q.last != nil || moving(res.Why())
	q.last = &failure{res.Why()}
	now := time.Now()
	if q.away.IsZero() {
		q.away = now
		if inTouch && !moving(res.Why()) { // the call goes on, so no call returns it
			q.engine.Failed(q.lock, q.args.Owner, q.backendError(res.Why()))
		}
	}
	return inTouch && now.Sub(q.away) < Outage*q.engine.Timeout
}
