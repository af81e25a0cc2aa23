// Package servertime guesses what time it is on the server, from the times that
// its answers carried.
//
// The guess serves one purpose: to tell the server until when a call may take
// effect, so that a call which was held up on its way, and given up by its
// caller, does nothing when it arrives after all. A wrong guess cannot break a
// lock. If the server is ahead of the guess, it refuses a call that is in time,
// its answer corrects the guess, and the call is repeated; if it is behind, a
// call that was given up may take effect for that much longer. How far it may be
// behind is known from how long the answer took, and callers wait for it.
package servertime

import (
	"strconv"
	"sync/atomic"
	"time"
)

// slack is what a limit allows beyond the known error of the guess, for clocks
// that drift and for rounding.
const slack = 250 * time.Millisecond

// young is for how long a guess is kept although a new one is as good.
const young = time.Second

// Clock is a guess. The zero Clock takes the server's clock for the same as
// ours. It is safe for concurrent use.
type Clock struct {
	guess atomic.Pointer[reading]
}

// reading is the server's time, ours when it was read, and by how much that may
// be wrong in either direction.
type reading struct {
	server int64 // ms since the epoch
	at     time.Time
	doubt  time.Duration
}

// Learn takes note of the time that an answer carried, to a call that was sent
// at sent. A guess that was found wrong is replaced at once; another one by a
// better one, and from time to time by one that is good enough.
func (c *Clock) Learn(server int64, sent time.Time, wrong bool) {
	now := time.Now()
	half := now.Sub(sent) / 2
	old := c.guess.Load()
	replace := old == nil || wrong || half < old.doubt/2 ||
		now.Sub(old.at) > young && half <= max(slack, old.doubt)
	if replace {
		c.guess.Store(&reading{server: server, at: sent.Add(half), doubt: half})
	}
}

// Limit returns the server's time at d after now, with a margin, in ms since the
// epoch, as scripts take it; and by how much later than d after now it may be.
func (c *Clock) Limit(now time.Time, d time.Duration) (limit string, doubt time.Duration) {
	ms, doubt := now.UnixMilli(), time.Duration(0)
	if r := c.guess.Load(); r != nil {
		ms, doubt = r.server+now.Sub(r.at).Milliseconds(), r.doubt
	}
	return strconv.FormatInt(ms+(d+slack).Milliseconds(), 10), doubt + 2*slack
}
