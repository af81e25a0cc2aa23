package mono

import "time"

// measure finds no suspension: Go reads the interrupt time, which goes on meanwhile.
func measure() (asleep time.Duration, ok bool) { return 0, true }
