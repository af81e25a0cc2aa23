package mono

import (
	"syscall"
	"time"
	"unsafe"
)

// Clocks of Linux.
const (
	clockMonotonic = 1 // what Go reads
	clockBoottime  = 7 // the same, but it goes on while the host is suspended
)

const (
	// sure is the longest time between the two readings of clockMonotonic that makes a measurement good enough. After tries
	// measurements the best one counts.
	sure  = 100 * time.Microsecond
	tries = 10
)

// asleepAtStart is the host's total suspension before the program's start.
var asleepAtStart, _ = sinceBoot()

// measure returns the host's total suspension since the program's start.
func measure() (asleep time.Duration, ok bool) {
	asleep, ok = sinceBoot()
	return asleep - asleepAtStart, ok
}

// sinceBoot returns the host's total suspension since it was booted. ok is false if the kernel does not have the clocks. The
// thread may be preempted between the readings, so the result may be too large by that, and is never too small.
func sinceBoot() (asleep time.Duration, ok bool) {
	within := time.Duration(-1)
	for range tries {
		before, ok1 := read(clockMonotonic)
		boot, ok2 := read(clockBoottime)
		after, ok3 := read(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0, false
		}
		if took := after - before; within < 0 || took < within {
			asleep, within = boot-before, took
		}
		if within < sure {
			break
		}
	}
	return asleep, true
}

// read reads a clock. Fake time does not apply.
func read(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0) //nolint:gosec // the call writes there, and keeps nothing
	return time.Duration(t.Nano()), failed == 0
}
