//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// The clock of a room: it is the same in all processes, and nobody sets it.
var clockBegan, clockAt, errClock = startClock()

// startClock returns a moment, and what the system's monotonic clock said at it, in ns.
func startClock() (time.Time, int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Now(), now.Nano(), err
}

// ticks is a moment by the clock, in ns.
func ticks(t time.Time) int64 { return clockAt + int64(t.Sub(clockBegan)) }
