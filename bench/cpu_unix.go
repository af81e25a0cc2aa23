//go:build unix

package main

import (
	"syscall"
	"time"
)

// processCPU returns how long this process has been on a core, in user and system
// mode together, all of its threads.
func processCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
