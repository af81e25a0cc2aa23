//go:build !unix

package main

import "time"

var clockBegan = time.Now()

// ticks is a moment by the clock of this process, in ns.
func ticks(t time.Time) int64 { return int64(t.Sub(clockBegan)) }
