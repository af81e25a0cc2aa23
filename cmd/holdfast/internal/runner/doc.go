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
// Linux ends the command when the thread that started it ends. Four others help.
// One waits in Lock and is awaited by acquire. One says meanwhile for whom we
// wait, and is awaited there, too. One waits for the command to
// change its state; it ends with the command, which Run always waits for. One, the
// teller, writes to standard error and the status, which may block for ever; Run
// waits for a second for it, and then it ends with the program.
//
// # A run inside a run
//
// Whoever finds in the environment that a run of the same name is around it, and in
// Redis that the owner named there holds the lock, becomes the command (execve). It is in the
// process group of the outer run's command then, unless it has left that (setsid), which the
// outer run passes signals on to and kills at the end of the lock, so nothing is watched twice. Until then our signals
// are collected; deafen gives them their usual effect back, and one that has come before it is
// looked for after it.
package runner
