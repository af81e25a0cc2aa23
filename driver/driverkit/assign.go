package driverkit

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses between attempts to subscribe: after the first failure, and after many.
const (
	FirstPause = 50 * time.Millisecond
	LastPause  = time.Second
)

// Run has what is due assigned until ctx ends. Due returns what is and, if nothing is, how
// long it is until something may be; wake tells it to look again.
func Run[T any](ctx context.Context, wake <-chan struct{}, due func() ([]T, time.Duration), assign func([]T)) {
	for {
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
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// Notify wakes a goroutine, which then looks at all that there is to do.
func Notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it has been notified already
	}
}

// Spread is at random what part of a pause is waited for: at least half of it. It spreads
// reconnections.
func Spread() float64 {
	return 0.5 + rand.Float64()/2 //nolint:gosec // guards nothing
}

// Pause is how long to wait after so many failures before the one now.
func Pause(failures int, spread float64) time.Duration {
	return time.Duration(float64(min(FirstPause<<min(failures, 10), LastPause)) * spread)
}
