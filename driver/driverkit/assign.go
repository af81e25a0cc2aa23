package driverkit

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses of Backoff: after the first failure, and after many.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// RunAssigner is the loop in which a listener assigns its subscriptions to connections. It runs
// until ctx ends, on the caller's goroutine; what it has been assigning by then is finished.
//
// The function due takes out and returns the subscriptions whose time has come. If there are
// none, it returns how long it takes until there may be one; that must be positive. RunAssigner
// calls due again after that time, or when [Notify] is called on wake. The function assign gets
// what due has returned. It deals with its errors itself: a subscription that it cannot assign
// becomes due again after a [Backoff]. RunAssigner calls one function at a time, and holds no lock.
func RunAssigner[T any](ctx context.Context, wake <-chan struct{}, due func() ([]T, time.Duration), assign func([]T)) {
	for ctx.Err() == nil {
		now, pause := due()
		if len(now) > 0 {
			assign(now)
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Notify wakes the goroutine that reads from wake, a channel with a capacity of 1. Several
// notifications before it reads are one, so it then looks at all that there is to do. Notify does
// not block.
func Notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it has been notified already
	}
}

// Backoff returns how long to wait before the next attempt to subscribe: 50 ms times jitter
// after the first failure, twice as much after each further one, and 1 s times jitter at most.
// The argument failures is the number of earlier failures in a row; 0 is the first failure.
func Backoff(failures int, jitter float64) time.Duration {
	return time.Duration(float64(min(firstPause<<min(failures, 10), lastPause)) * jitter)
}

// Jitter returns a random factor for [Backoff], at least 0.5 and less than 1. It keeps clients
// from reconnecting in step. Subscriptions that fail together use one jitter, so that they are due
// together.
func Jitter() float64 {
	return 0.5 + rand.Float64()/2 //nolint:gosec // guards nothing
}
