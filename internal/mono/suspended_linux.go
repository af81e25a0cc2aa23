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
	// sure is how close together the clocks have to be read; they are read so often for that at most.
	sure  = 100 * time.Microsecond
	tries = 10
)

// asleepAtStart is for how long the host had been suspended before.
var asleepAtStart, _ = sinceBoot()

// measure is for how long the host has been suspended since the program's start.
func measure() (asleep time.Duration, ok bool) {
	asleep, ok = sinceBoot()
	return asleep - asleepAtStart, ok
}

// sinceBoot is for how long the host has been suspended since it was booted. It is false if the kernel does not say. The thread may
// be held up between the looks at the clocks: the closest ones count, and it is never too little.
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
