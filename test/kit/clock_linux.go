package kit

import (
	"syscall"
	"unsafe"
)

// Now is the machine's monotonic clock, in ns: the same for all its processes,
// and never set.
func Now() int64 {
	const monotonic = 1
	var ts syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return ts.Nano()
}
