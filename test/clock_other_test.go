//go:build !linux

package test

import "time"

// now is the machine's clock, in ns: the same for all its processes.
func now() int64 { return time.Now().UnixNano() }
