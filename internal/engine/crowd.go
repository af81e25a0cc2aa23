package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// This file keeps those who wait for a lock in many processes from asking all at once. Each
// release wakes all of them, and one can have it. So where many listen, the woken wait for a
// random while, and whoever gets the lock tells the others. What is not known, because the user may not
// ask, or they listen at other nodes of a cluster, is taken for few.

const (
	// fewEnough is how many processes may ask at each release.
	fewEnough = 16
	// longestDraw is how long the woken wait at most.
	longestDraw = 200 * time.Millisecond
	// triesASecond is how often all who only wait ask, together. Beside that each asks when the
	// lease would have ended, since nobody tells of that.
	triesASecond = 100
)

// crowded reports whether those who wait must not ask all at once.
func crowded(c waitqueue.Crowd) bool { return c.Size > fewEnough }

// window is within which time the woken ask: so that some eight do before they can hear
// that one of them has the lock.
func window(c waitqueue.Crowd) time.Duration {
	return min(time.Duration(c.Size)*c.Trip/8, longestDraw)
}

// draw waits for a random while after a wake-up, if many have been woken. It reports false if
// others have got the lock meanwhile, or ctx has ended, or it was handed the lock.
func (q *queued) draw(ctx context.Context) bool {
	crowd := q.waiter.Crowd()
	if !crowded(crowd) {
		return true
	}
	switch q.pause(ctx, time.Now().Add(upTo(window(crowd))), q.waiter.AcquiredElsewhere()) {
	case pauseWoken:
		// For how long the others have it nobody knows who has not asked: a few look soon.
		q.waiter.RetryAt(time.Now().Add(upTo(turn(crowd, longestSleep))), nil)
		return false
	case pauseOver:
		q.waiter.Notify() // the wake-up that brought us here
		return false
	default:
		return true
	}
}

// askAgainAfter is for how long to sleep without a wake-up, of those who would sleep for so long
// each if they were few: at random, so that they do not ask together.
func askAgainAfter(c waitqueue.Crowd, alone time.Duration) time.Duration {
	if !crowded(c) {
		return alone
	}
	each := turn(c, alone)
	return each/2 + upTo(each)
}

// turn is within which time all of them ask once.
func turn(c waitqueue.Crowd, alone time.Duration) time.Duration {
	return max(alone, time.Duration(c.Size)*time.Second/triesASecond)
}

// noteCrowd learns from a refusal how many wait.
func (q *queued) noteCrowd(res call.Result) {
	if q.args.CountsListeners {
		q.waiter.SetCrowd(waitqueue.Crowd{Size: protocol.ReadListeners(res.Reply), Trip: time.Since(res.Sent)})
	}
}

// prepare makes the request of the next try. Where all who wait are woken it counts them, and tells them if there are many.
func (q *queued) prepare() {
	if q.lock.Crowds {
		q.args.CountsListeners, q.args.TellsOthers = true, crowded(q.waiter.Crowd())
	} else if !q.request.IsZero() {
		return // it may have an id, so it stays what it is
	}
	q.request = q.lock.Requests.Acquire(q.args)
}
