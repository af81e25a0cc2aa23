package main

import (
	"context"
	"time"
)

// What counts as quiet: for so long this process has used less than so much of a
// core. With those that poll it never is, so it is not waited for longer than the limit.
const (
	quietFor   = 200 * time.Millisecond
	quietShare = 0.05
	quietLimit = 5 * time.Second
)

// awaitQuiet waits until what has been started is under way: connections made, waiters
// asleep.
func awaitQuiet(ctx context.Context) error {
	for end := time.Now().Add(quietLimit); time.Now().Before(end); {
		start := time.Now()
		before, err := processCPU()
		if err != nil {
			return err
		}
		pause(ctx, quietFor)
		after, err := processCPU()
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if share(before, after, time.Since(start)) < quietShare {
			return nil
		}
	}
	return nil
}
