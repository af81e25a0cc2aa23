package watchdog

import (
	"container/heap"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

type state uint8

const (
	watched state = iota + 1
	lost
	removed
)

// Entry is one watched hold. Its exported fields are set before Watch, and
// nobody but the watchdog touches them afterwards, but to read Value.
type Entry[V any] struct {
	// Value is what the callbacks are told about.
	Value V
	// Lease is the time to live that a renewal asks for, until [Watchdog.SetLease].
	Lease time.Duration
	// Until, if set, is the end of the longest time that renewals may reach. See [Watchdog.SetUntil].
	Until mono.Time
	// RecheckEvery, if set, is after which time at the latest the server is asked again
	// for what the hold was promised, renewed or not: somebody may have shortened it.
	RecheckEvery time.Duration

	// Guarded by Watchdog.mu.
	deadline   mono.Time
	asleep     time.Duration // the host's total suspension when the deadline was last computed
	renewAt    mono.Time     // when to send the next renewal; zero: never
	longHeldAt mono.Time     // zero once it has been told
	index      int           // in the heap; -1 outside
	short      time.Duration // the lease that was granted, until a renewal if it is less than Lease; otherwise 0
	state      state
	renewing   bool // prolonged, not only checked, or rechecked
	inFlight   bool
	check      bool // to be asked about at once
	untilMoves bool // Until is what the server has said, and may be moved there
}

// LongHeld reports whether [Config.LongHeld] was told of the entry, or is being told. It is for entries
// that have been removed.
func (e *Entry[V]) LongHeld() bool { return e.longHeldAt.IsZero() }

// Deadline is until when the entry could be trusted, of one that has been removed or lost.
func (e *Entry[V]) Deadline() mono.Time { return e.deadline }

// next is when the watchdog must look at the entry.
func (e *Entry[V]) next() mono.Time {
	at := e.deadline
	if !e.inFlight && e.check {
		return 0
	}
	if !e.inFlight && !e.renewAt.IsZero() && e.renewAt < at {
		at = e.renewAt
	}
	if !e.longHeldAt.IsZero() && e.longHeldAt < at {
		at = e.longHeldAt
	}
	return at
}

// lease returns the lease that the pauses between renewals follow from.
func (e *Entry[V]) lease() time.Duration {
	if e.short > 0 {
		return e.short
	}
	return e.Lease
}

// renewalDue reports whether to send a renewal or a check, or one so soon that
// it may as well go with the next batch.
func (e *Entry[V]) renewalDue(now mono.Time) bool {
	ahead := min(tick, e.Lease/20)
	if e.short > 0 { // it is young, and may be over before its renewal is due
		ahead = min(ahead, shortHold/2)
	}
	return !e.inFlight && (e.check || !e.renewAt.IsZero() && e.renewAt <= now.Add(ahead))
}

// plan sets when the next renewal is sent, after something was asked at sent.
func (e *Entry[V]) plan(sent mono.Time) {
	every := e.RecheckEvery
	if e.renewing {
		every = e.Lease / 3
		if e.untilMoves && !e.Until.IsZero() { // which may have moved since, and nobody said so
			every = min(every, max(e.Until.Sub(sent)/3, pause(e.Lease)))
		}
		if e.RecheckEvery > 0 {
			every = min(every, e.RecheckEvery)
		}
	}
	e.renewAt = 0
	if every > 0 {
		e.renewAt = sent.Add(every)
	}
}

// ttl is what a renewal sent now asks for; 0 only asks whether it is held. It is
// never less than what is left of the promise, if somebody may have shortened it.
func (e *Entry[V]) ttl(now mono.Time) time.Duration {
	var ttl time.Duration
	if e.renewing {
		ttl = e.Lease
		if !e.Until.IsZero() {
			ttl = min(ttl, e.Until.Sub(now))
		}
	}
	if e.RecheckEvery > 0 {
		ttl = max(ttl, e.deadline.Sub(now))
	}
	return max(0, ttl.Truncate(time.Millisecond))
}

// entries is the heap: what is due first comes first.
type entries[V any] []*Entry[V]

var _ heap.Interface = (*entries[int])(nil)

func (h entries[V]) Len() int           { return len(h) }
func (h entries[V]) Less(i, j int) bool { return h[i].next() < h[j].next() }

func (h entries[V]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is heap.Push's part.
func (h *entries[V]) Push(x any) {
	e := x.(*Entry[V]) //nolint:forcetypeassert // heap.Push is called in one place, with an *Entry
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop is heap.Pop's part.
func (h *entries[V]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
