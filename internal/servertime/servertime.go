// Package servertime guesses what time it is on each server, from the times that
// its answers carried.
//
// The guesses serve one purpose: to tell a server until when a call may take
// effect, so that a call which was held up on its way, and given up by its
// caller, does nothing when it arrives after all. A wrong guess cannot break a
// lock. If the server is ahead of the guess, it refuses a call that is in time,
// its answer corrects the guess, and the call is repeated; if it is behind, a
// call that was given up may take effect for longer. How much longer is computed
// when it matters, from the guess as it is then, and callers wait for it.
//
// # One guess a server
//
// The nodes of a cluster have clocks of their own. Which slots are on one node
// nobody here knows, so each slot has a guess of its own. Until the first answer
// about a slot nobody knows how far the clock of its node is off: a limit then
// follows the last answer of any node, or else our own clock, and when it has
// passed is only known after an answer.
//
// # State
//
// A guess is immutable, and replaced as a whole, so nothing is locked. Where keys
// have slots there are at most as many guesses as slots.
package servertime

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

const (
	// Slack is what a limit allows beyond the known error of the guess, for clocks
	// that drift and for rounding.
	Slack = 250 * time.Millisecond
	// young is for how long a guess is kept although a new one is as good.
	young = time.Second
	// maxDoubt is by how much the server's clock is believed to differ from a
	// limit's at most. A call that was held up for so long beyond its time is
	// not expected any more, whatever its limit says.
	maxDoubt = 2 * time.Minute
)

// Clocks are the guesses of one client. The zero Clocks is for servers without
// slots. It is safe for concurrent use.
type Clocks struct {
	last  guess   // the last answer of any node; the only one without slots
	slots []guess // of the node that has the slot; nil without slots
}

// New returns the clocks of nodes that share so many slots.
func New(slots int) *Clocks { return &Clocks{slots: make([]guess, slots)} }

// Of returns the clock of the node that has a slot.
func (c *Clocks) Of(slot int) Clock {
	if c.slots == nil {
		return Clock{own: &c.last, last: &c.last}
	}
	return Clock{own: &c.slots[slot], last: &c.last}
}

// Clock is one of [Clocks].
type Clock struct{ own, last *guess }

type guess = atomic.Pointer[reading]

// reading is the server's time, ours when it was read, and by how much that may
// be wrong in either direction.
type reading struct {
	server int64 // ms since the epoch
	at     mono.Time
	doubt  time.Duration
}

// time is what the server's clock shows by the reading, in ms since the epoch.
func (r *reading) time(now mono.Time) int64 { return r.server + now.Sub(r.at).Milliseconds() }

// Learn takes note of the time that an answer carried, to a call that was sent
// at sent. A guess that was found wrong is replaced at once; another one by a
// better one, and from time to time by one that is good enough.
func (c Clock) Learn(server int64, sent mono.Time) {
	now := mono.Now()
	doubt := now.Sub(sent) / 2
	at := sent.Add(doubt)
	if old := c.own.Load(); old != nil {
		off := time.Duration(server-old.time(at)) * time.Millisecond
		wrong := off.Abs() > old.doubt+doubt+Slack // it is another clock, or has been set
		better := doubt < old.doubt/2
		fresher := now.Sub(old.at) > young && doubt <= max(Slack, old.doubt)
		if !wrong && !better && !fresher {
			return
		}
	}
	found := &reading{server: server, at: at, doubt: doubt}
	c.own.Store(found)
	if c.last != c.own {
		c.last.Store(found)
	}
}

// Limit returns the server's time at d after now, with a margin, in ms since the
// epoch.
func (c Clock) Limit(now mono.Time, d time.Duration) int64 {
	var ms int64
	if r := cmp.Or(c.own.Load(), c.last.Load()); r != nil {
		ms = r.time(now)
	} else {
		ms = now.Time().UnixMilli()
	}
	return ms + (d + Slack).Milliseconds()
}

// Doubt returns by how much longer than its time a call that is sent now may have an effect:
// nothing worth mentioning, unless the server has not told its time yet. Of a clock that will be set
// back, or of a replica that will be promoted and whose clock is behind, nobody knows.
func (c Clock) Doubt() time.Duration {
	if c.own.Load() == nil {
		return maxDoubt
	}
	return 0
}

// Expiry returns from when on the server finds a call late that was sent at sent,
// with the limit for d, as far as that is known now: if the server has not
// answered yet, as if our clock were right.
func (c Clock) Expiry(sent mono.Time, d time.Duration, limit int64) mono.Time {
	over := sent.Add(d + 2*Slack)
	if r := c.own.Load(); r != nil {
		left := time.Duration(limit-r.server) * time.Millisecond
		over = r.at.Add(left + r.doubt + Slack)
	}
	return min(over, sent.Add(d+maxDoubt))
}
