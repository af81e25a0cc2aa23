//go:build !linux

package kit

import "time"

// Now is the machine's clock, in ns: the same for all its processes.
func Now() int64 { return time.Now().UnixNano() }
