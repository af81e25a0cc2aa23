package holdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

const (
	// longestSleep is how long the head of a queue sleeps between two attempts when
	// nothing wakes it: what a lost message can cost.
	longestSleep = 3 * time.Second
	// outageTimeouts is how many client timeouts a waiter bears without Redis, once
	// Redis has answered it.
	outageTimeouts = 10
)

// errWaitOver is the cause of a waiting context whose Wait has run out.
var errWaitOver = errors.New("the wait is over")

// waitInQueue waits behind those of this process who came before, and then asks
// until the lock is acquired.
func (a *acquisition) waitInQueue(ctx context.Context, w protocol.Acquire) call.Result {
	if a.state != nil && a.nothingToNestIn() {
		return call.Result{Err: ErrClosed}
	}
	ahead := a.client.queues.Len(a.kind.queueKey(w.Owner))
	if ahead > 0 || len(a.unknown) > 0 || a.refusedOnce {
		a.tellWaiting(ahead)
	}
	ask := a.kind.waits.Acquire(w)
	channel := a.kind.waits.Channel(w.Owner)
	waiter := a.client.queues.Join(a.kind.queueKey(w.Owner), channel)
	a.tries = 0
	defer waiter.Leave()
	select {
	case <-waiter.Head():
	case <-ctx.Done():
		_, a.last = waiter.Retry()
		return call.Result{Err: context.Cause(ctx)}
	}
	var away time.Time // since when Redis has not answered; zero if it did
	for {
		if !a.awaitTurn(ctx, waiter) {
			return call.Result{Err: context.Cause(ctx)}
		}
		o := a.try(ctx, waiter, ask)
		switch {
		case o.Has(script.Refused):
			away = time.Time{}
			a.refused(waiter, o)
			a.tellWaiting(0)
		case o.Err == nil:
			waiter.RetryAt(time.Now().Add(a.afterMe()), nil)
			return o
		case a.bears(ctx, waiter, &o, &away):
			waiter.RetryAt(time.Now().Add(call.LongestPause), a.last)
			a.tellWaiting(0)
		default:
			waiter.Notify() // for the next in the queue: this attempt has learnt nothing
			return o
		}
	}
}

// tellWaiting tells the hooks, once, that the acquire has to wait.
func (a *acquisition) tellWaiting(ahead int) {
	if a.toldWaiting {
		return
	}
	a.toldWaiting = true
	if hooks := a.config.hooks; hooks.want(onWait) {
		a.client.tasks.Uncounted(func() {
			hooks.tell(a.caller, onWait, Event{Name: a.kind.name, Kind: a.kind.label(), Ahead: ahead})
		})
	}
}

// awaitTurn waits until the queue's head should try: nobody has tried yet, it is
// notified, or the time has come. It reports false if ctx ends first.
func (a *acquisition) awaitTurn(ctx context.Context, waiter *waitqueue.Waiter) bool {
	at, last := waiter.Retry()
	if last != nil {
		a.last = last
	}
	if !at.IsZero() {
		if !a.kind.config.polling {
			waiter.Listen() // before every sleep: the one before may have had no need to
		}
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		select {
		case <-waiter.Wake():
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case waiter.TrySlot() <- struct{}{}:
		waiter.Taken()
		return true
	case <-ctx.Done():
		waiter.Notify() // the wake-up that brought us here
		return false
	}
}

// try asks once, with the queue's try slot, which stays with an attempt that is given up
// until that is over.
func (a *acquisition) try(ctx context.Context, waiter *waitqueue.Waiter, ask script.Request) call.Result {
	a.asked = true
	o := a.client.calls.Do(ctx, ask)
	a.unknown = append(a.unknown, o.Unknown...)
	if n := len(o.Unknown); n > 0 && o.Unknown[n-1].Pending() {
		f := o.Unknown[n-1]
		if a.client.tasks.Go(func() {
			defer waiter.Done()
			a.client.calls.Outcome(f)
		}) {
			return o
		}
	}
	waiter.Done()
	return o
}

// refused notes who holds the lock, and when to ask again at the latest.
func (a *acquisition) refused(waiter *waitqueue.Waiter, o call.Result) {
	// What has passed its limit without an effect so far will have none.
	a.unknown = slices.DeleteFunc(a.unknown, func(f *call.Attempt) bool { return f.Over().Before(o.Sent) })
	a.last, a.refusedOnce = a.refusal(o), true
	nap := longestSleep
	if retry := protocol.ReadRetry(o.Reply); retry >= 0 { // else what it waits for does not expire
		nap = min(nap, retry)
	}
	if a.kind.config.polling {
		nap = a.kind.config.backoff.pause(a.tries)
		a.tries++
	}
	waiter.RetryAt(time.Now().Add(nap), a.last)
}

// afterMe is when the next waiter should try, if nothing wakes it, after this one
// has been let in.
func (a *acquisition) afterMe() time.Duration {
	switch {
	case a.kind.shared:
		return 0
	case a.kind.config.polling:
		return a.kind.config.backoff.pause(0)
	default:
		return min(a.lease, longestSleep)
	}
}

// bears reports whether to go on after a call that failed. Only one who has
// been in touch with Redis bears its absence: for others it may be a wrong
// address.
func (a *acquisition) bears(ctx context.Context, waiter *waitqueue.Waiter, o *call.Result, away *time.Time) bool {
	_, last := waiter.Retry()
	if last != nil {
		a.last = last
	}
	if ctx.Err() != nil || !o.WorthRepeating() {
		return false
	}
	inTouch := a.last != nil || moving(o.Why())
	a.last = backendError(a.op, a.kind.name, *o)
	now := time.Now()
	if away.IsZero() {
		*away = now
	}
	return inTouch && now.Sub(*away) < outageTimeouts*a.client.config.timeout
}
