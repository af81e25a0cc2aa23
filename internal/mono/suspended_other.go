//go:build !linux && !windows

package mono

import "time"

// measure does not know: Go's standard library has no clock here that goes on while the host is suspended, and is not set.
func measure() (asleep time.Duration, ok bool) { return 0, false }
