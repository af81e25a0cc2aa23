// Package runner runs a command while a lock is held, and stops it before the
// lock can be somebody else's.
//
// # Time
//
// The key of the lock lives for a lease after each renewal. Counted back from
// its end there are two pieces of time: the reserve, in which a killed command
// is reaped, and before it the grace, between SIGTERM and SIGKILL. Both together
// are the margin of the hold (holdfast.WithMargin). So
//
//	last renewal      deadline: SIGTERM    SIGKILL    reaped   the key expires
//	     |------------------|-----------------|---------·---------|
//	                              grace            reserve
//
// A runner that notices its loss late, because it or the whole machine was
// suspended, has less than the grace left, or nothing: SIGKILL then comes
// earlier, or at once.
//
// # Goroutines
//
// Run works in the goroutine that calls it, the main one, locked to its thread:
// Linux ends the command when the thread that started it ends. Two others help.
// One waits in Lock and is awaited by acquire. One waits for the command to
// change its state; it ends with the command, which Run always waits for.
package runner
