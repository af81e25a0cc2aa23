package mono

import "time"

// measure finds no suspension: Go reads the interrupt time, which keeps running while the host is suspended.
func measure() (asleep time.Duration, ok bool) { return 0, true }
