// Package servertime guesses what time it is on the server, from the times that
// its answers carried.
//
// The guess serves one purpose: to tell the server until when a call may take
// effect, so that a call which was held up on its way, and given up by its
// caller, does nothing when it arrives after all. A wrong guess cannot break a
// lock. If the server is ahead of the guess, it refuses a call that is in time,
// its answer corrects the guess, and the call is repeated; if it is behind, a
// call that was given up may take effect for that much longer.
package servertime

import (
	"strconv"
	"sync/atomic"
	"time"
)

// Slack is what a limit allows for the error of the guess.
const Slack = 250 * time.Millisecond

// young is for how long a guess is not replaced by the next one.
const young = time.Second

// Clock is a guess. The zero Clock takes the server's clock for the same as
// ours. It is safe for concurrent use.
type Clock struct {
	guess atomic.Pointer[reading]
}

// reading is the server's time, and ours when it was read.
type reading struct {
	server int64 // ms since the epoch
	at     time.Time
}

// Learn takes note of the time that an answer carried, to a call that was sent
// at sent. A wrong guess is replaced at once, a good one from time to time.
func (c *Clock) Learn(server int64, sent time.Time, wrong bool) {
	now := time.Now()
	if old := c.guess.Load(); old != nil && !wrong && now.Sub(old.at) < young {
		return
	}
	c.guess.Store(&reading{server: server, at: sent.Add(now.Sub(sent) / 2)})
}

// Limit returns the server's time at d from now, plus [Slack], in ms since the
// epoch, as scripts take it.
func (c *Clock) Limit(d time.Duration) string {
	now := time.Now()
	ms := now.UnixMilli()
	if r := c.guess.Load(); r != nil {
		ms = r.server + now.Sub(r.at).Milliseconds()
	}
	return strconv.FormatInt(ms+(d+Slack).Milliseconds(), 10)
}
