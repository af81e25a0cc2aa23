package main

import (
	"context"
	"time"
)

// What counts as settled: for so long this process has used less than so much of a
// core. Whoever polls never settles, so it is not waited for longer than the limit.
const (
	settledFor   = 200 * time.Millisecond
	settledShare = 0.05
	settleLimit  = 5 * time.Second
)

// settle waits until what has been started is under way: connections made, waiters
// asleep.
func settle(ctx context.Context) error {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); {
		start := time.Now()
		before, err := processCPU()
		if err != nil {
			return err
		}
		pause(ctx, settledFor)
		after, err := processCPU()
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if share(before, after, time.Since(start)) < settledShare {
			return nil
		}
	}
	return nil
}
