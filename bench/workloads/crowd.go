package workloads

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Hands is how many goroutines take and give back at one time.
const Hands = 64

// How long one number of a forEach may take on a slow machine, and how long
// all of them may take, however few they are.
const (
	aNumber = 10 * time.Millisecond
	atLeast = 30 * time.Second
)

// ErrLeft says that goroutines did not come back.
var ErrLeft = errors.New("it has not come to an end")

// ForEach calls f with the numbers from low to high-1 on several goroutines, and
// waits for them. After an error, or the end of the context, no more calls begin; it
// returns the first error. If f does not return, its goroutines are left behind.
func ForEach(ctx context.Context, low, high int, f func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		workOff(ctx, cancel, low, high, f)
	}()
	limit := atLeast + time.Duration(high-low)*aNumber
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-done:
		return context.Cause(ctx)
	case <-timeout.C:
		return fmt.Errorf("%w within %v", ErrLeft, limit)
	}
}

// workOff has the hands call f.
func workOff(ctx context.Context, fail context.CancelCauseFunc, low, high int, f func(int) error) {
	var group sync.WaitGroup
	for hand := range Hands {
		group.Go(func() {
			for i := low + hand; i < high && ctx.Err() == nil; i += Hands {
				if err := f(i); err != nil {
					fail(err)
				}
			}
		})
	}
	group.Wait()
}
