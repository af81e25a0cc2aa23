package holdfast

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

const (
	// longestSleep is how long the head of a queue sleeps between two tries when nothing
	// wakes it: what a lost message can cost. Of some kinds it is shorter: see traits. In a crowd it may be longer: see askAgainAfter.
	longestSleep = 3 * time.Second
	// outageTimeouts is how many client timeouts a waiter bears without Redis, once
	// Redis has answered it.
	outageTimeouts = 10
)

// acquirer makes the tries of one acquire: of one lock, of several, or of what has no
// owner. A try is one question and its answer; an attempt is one of the sends that it
// takes until there is an answer (see internal/call).
type acquirer interface {
	// await waits until the next try is due. It reports false if ctx ends first.
	await(ctx context.Context) bool
	// try asks, and reports whether to ask again.
	try(ctx context.Context) (again bool)
}

// acquireLoop is the only acquire loop. It reports false if ctx has ended it.
func acquireLoop(ctx context.Context, a acquirer) bool {
	for a.await(ctx) {
		if !a.try(ctx) {
			return true
		}
	}
	return false
}

// queued is an acquisition that waits its turn in this process, and asks as the head
// of its queue.
type queued struct {
	*acquisition

	waiter   *waitqueue.Waiter
	args     protocol.Acquire
	request  script.Request // made of args when it is sent first
	refusals int            // how often it was refused
	away     time.Time      // since when Redis has not answered; zero if it did
	result   call.Result    // of the last try
}

// waitInQueue waits behind those of this process who came before, and then asks
// until the lock is acquired.
func (a *acquisition) waitInQueue(args protocol.Acquire) call.Result {
	if a.shutdown.Err() != nil {
		return call.Result{Err: ErrClosed}
	}
	var taker any
	if a.joinsCohort() {
		taker = a
	}
	waiter, ahead := a.client.queues.Join(a.kind.queueFor(args.Owner), taker)
	defer waiter.Leave()
	q := &queued{acquisition: a, args: args, waiter: waiter}
	if len(a.unknown) > 0 || a.refusedOnce {
		a.tellWaiting(ahead)
	}
	first := waiter.TryFirst() // nobody has asked, or waits: the lock may well be free
	if !first {
		a.tellWaiting(ahead)
	}
	if first {
		a.registered = true
		q.request = a.kind.requests.Acquire(args)
		if !q.learn(a.caller, a.askBriefly(q.request)) {
			return q.result
		}
	}
	if a.state != nil {
		a.state.setWaiter(waiter)
		defer a.state.setWaiter(nil)
	}
	if !q.awaitTurn() || !acquireLoop(a.bound(), q) {
		if waiter.Leave() {
			return call.Result{Err: errHandedOver}
		}
		return call.Result{Err: context.Cause(a.bound())}
	}
	return q.result
}

// awaitTurn waits until the waiter is at the head of the queue. It reports false if its
// time is over before that, or it was handed the lock.
func (q *queued) awaitTurn() bool {
	caller, closing := q.caller.Done(), q.shutdown.Done()
	if q.config.wait > 0 || q.bounded != nil { // else the context that bounds the call is not needed yet
		caller, closing = q.bound().Done(), nil
	}
	var tired <-chan time.Time
	if q.kind.sharesHolds {
		timer := time.NewTimer(min(longestClosed, q.left()/4))
		defer timer.Stop()
		tired = timer.C
	}
	for waiting := true; waiting; {
		select {
		case <-q.waiter.Head():
			if q.shutdown.Err() == nil {
				return true
			}
			waiting = false
		case <-q.waiter.Received():
			return false
		case <-tired:
			q.waiter.AskAll()
		case <-caller:
			waiting = false
		case <-closing:
			waiting = false
		}
	}
	_, q.last = q.waiter.Retry()
	<-q.bound().Done()
	return false
}

// left is for how long the call may still wait.
func (q *queued) left() time.Duration {
	left := time.Duration(math.MaxInt64)
	if q.config.wait > 0 {
		left = time.Until(q.started.Add(q.config.wait))
	}
	if deadline, ok := q.caller.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return left
}

// await waits until the queue's head should try: nobody has tried yet, it is
// notified, or the time has come. It reports false, too, if it was handed the lock.
func (q *queued) await(ctx context.Context) bool {
	for {
		at, last := q.waiter.Retry()
		if last != nil {
			q.last = last
		}
		if at.IsZero() {
			break
		}
		if !q.kind.config.polling {
			q.waiter.Listen() // before every sleep: the one before may have had no need to
		}
		end := q.pause(ctx, at, q.waiter.Wake())
		if end == pauseOver {
			return false
		}
		if end == pauseTimedOut || q.draw(ctx) {
			break
		}
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

// pauseEnd is why a pause has ended.
type pauseEnd int

const (
	pauseTimedOut pauseEnd = iota
	pauseWoken             // something was received before
	pauseOver              // ctx has ended, or the waiter was handed the lock
)

// pause waits until a time, or until early receives.
func (q *queued) pause(ctx context.Context, until time.Time, early <-chan struct{}) pauseEnd {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-early:
		return pauseWoken
	case <-timer.C:
		return pauseTimedOut
	case <-q.waiter.Received():
	case <-ctx.Done():
	}
	return pauseOver
}

// try asks once. What comes of it is known though ctx ends.
func (q *queued) try(ctx context.Context) (again bool) {
	q.registered = true
	q.prepare()
	q.expect()
	res := q.client.calls.Do(ctx, q.request)
	q.answered(res)
	return q.learn(ctx, res)
}

// learn notes what a try says about the next one, and gives the try slot back.
func (q *queued) learn(ctx context.Context, res call.Result) (again bool) {
	q.unknown = append(q.unknown, res.Unknown...)
	q.result = res
	if res.Err == nil && !res.Has(script.Refused) {
		q.waiter.RetryAt(time.Now().Add(q.afterMe()), nil)
	}
	if res.Has(script.Done) && q.joinsCohort() {
		q.queue = q.waiter.LeaveHolding(q.state) // while nothing can be handed over to it
	}
	q.freeSlot(res)
	switch {
	case res.Has(script.Refused):
		q.away = time.Time{}
		q.refused(res)
		q.tellWaiting(0)
		return true
	case res.Err == nil:
		return false
	case q.bears(ctx, res):
		q.waiter.RetryAt(time.Now().Add(call.LongestPause), q.last)
		q.tellWaiting(0)
		return true
	default:
		q.waiter.Notify() // for the next in the queue: this try has learnt nothing
		return false
	}
}

// freeSlot gives the try slot back: now, or when it is known what came of the last
// attempt, if that was given up.
func (q *queued) freeSlot(res call.Result) {
	if n := len(res.Unknown); n > 0 && res.Unknown[n-1].Pending() {
		last := res.Unknown[n-1]
		if q.client.tasks.Go(func() {
			defer q.waiter.Done()
			q.client.calls.Outcome(q.client.life, last)
		}) {
			return
		}
	}
	q.waiter.Done()
}

// refused notes who holds the lock, and when to ask again at the latest.
func (q *queued) refused(res call.Result) {
	// What has passed its limit without an effect so far will have none.
	q.unknown = slices.DeleteFunc(q.unknown, func(attempt *call.Attempt) bool { return attempt.Expiry().Before(res.Sent) })
	q.last, q.refusedOnce = q.refusal(res), true
	q.noteCrowd(res)
	crowd := q.waiter.Crowd()
	sleep := askAgainAfter(crowd, cmp.Or(q.kind.longestSleep, longestSleep))
	if retry := protocol.ReadRetry(res.Reply); retry >= 0 { // else what it waits for does not expire
		if crowded(crowd) {
			retry += upTo(window(crowd)) // it expires for all of them
		}
		sleep = min(sleep, retry)
	}
	if q.kind.config.polling {
		sleep = q.kind.config.backoff.pause(q.refusals)
		q.refusals++
	}
	q.waiter.RetryAt(time.Now().Add(sleep), q.last)
}

// afterMe is when the next waiter should try, if nothing wakes it, after this one
// has been let in.
func (q *queued) afterMe() time.Duration {
	switch {
	case q.kind.shared:
		return 0
	case q.kind.config.polling:
		return q.kind.config.backoff.pause(0)
	default:
		return min(q.lease, longestSleep)
	}
}

// bears reports whether to go on after a call that failed. Only one who has
// been in touch with Redis bears its absence: for others it may be a wrong
// address.
func (q *queued) bears(ctx context.Context, res call.Result) bool {
	_, last := q.waiter.Retry()
	if last != nil {
		q.last = last
	}
	if ctx.Err() != nil || isOwnBound(res.Err) || !res.WorthRepeating() {
		return false
	}
	inTouch := q.last != nil || moving(res.Why())
	q.last = backendError(q.op, q.kind.name, res)
	now := time.Now()
	if q.away.IsZero() {
		q.away = now
	}
	return inTouch && now.Sub(q.away) < outageTimeouts*q.client.config.timeout
}
