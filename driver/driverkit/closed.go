package driverkit

import (
	"sync/atomic"
	"time"
)

// closedForGood is how long all calls have to say that the client is closed until that is believed.
const closedForGood = time.Second

// Closed finds out whether the program has closed the client. A client says so of a single connection, too,
// which it closes after servers have changed their roles. The zero value is ready.
type Closed struct {
	since atomic.Int64 // when the first of such calls ended, in Unix nanoseconds; 0: the last one was none
}

// Note notes whether a call ended because something was closed. It reports whether the client is
// closed for good: at once if the client says so for no other reason, and else after a second.
func (c *Closed) Note(closed, noOtherReason bool) bool {
	since := c.since.Load()
	switch now := time.Now; {
	case !closed:
		if since != 0 {
			c.since.Store(0)
		}
		return false
	case noOtherReason:
		return true
	case since == 0:
		c.since.CompareAndSwap(0, now().UnixNano())
		return false
	default:
		return now().Sub(time.Unix(0, since)) >= closedForGood
	}
}
