// Package mono has moments in 8 bytes, where a [time.Time] takes 24: for what there is ten
// thousand times.
//
// They are on a clock that nobody sets, and that goes on while the host is suspended, as the
// clocks of servers do: the monotonic clock that Go reads, and the time for which it stood still.
//
// # While the host is suspended
//
//   - On Linux that time is measured: CLOCK_BOOTTIME goes on, and nobody sets it.
//   - On Windows there is none: the clock that Go reads goes on, too.
//   - Elsewhere it is guessed. When the wall clock runs ahead of the monotonic one, the host was
//     suspended, or the wall clock was set: nobody can tell which, and the guess is the former. By
//     ten years and more it was set: a computer without a battery begins in the past. If it is set
//     back the monotonic clock counts.
//
// A virtual machine that its host pauses, or restores, may be told nothing, but that its wall clock
// is set afterwards. That is no suspension here, and [WallLead] shows it.
package mono

import (
	"cmp"
	"sync/atomic"
	"time"
)

const (
	// remeasure is after which time at the latest suspensions are looked for again. The clocks are asked at once
	// if the wall clock has jumped meanwhile, as it does after a suspension, unless it is set back just then.
	remeasure = 50 * time.Millisecond
	// jitter is by how much the wall clock may move, or what was measured may differ, without a reason.
	jitter = time.Millisecond
	// jump is by how much the wall clock must run ahead between two looks to be taken for a suspension, and not for
	// a clock that is being slewed; and tooFar, by how much for a clock that was set.
	jump   = 10 * time.Millisecond
	tooFar = 10 * 365 * 24 * time.Hour
)

// Time is a moment, in nanoseconds. It can be compared, and be a number of max and min.
// The zero Time is none, and before all others.
type Time int64

// The clock begins with the program's start, at what the wall clock said then: so no
// moment is zero, or below, also in tests whose time begins in another century.
var (
	start   = time.Now()
	startAt = Time(start.UnixNano())
)

// Now is this moment.
func Now() Time { return Of(time.Now()) }

// Of is the moment now, which was read from the clock just now.
func Of(now time.Time) Time {
	ran := now.Sub(start)
	return startAt + Time(ran+suspensions.until(ran, time.Duration(now.UnixNano()-int64(startAt))-ran))
}

// Read returns the moment now, which was read from the clock just now, and for how long the host has been suspended between the
// program's start and then.
func Read(now time.Time) (at Time, asleep time.Duration) {
	at = Of(now)
	return at, time.Duration(at-startAt) - now.Sub(start)
}

// WallLead is by how much the wall clock has gone further than the monotonic one since the program's
// start. It grows when the host was suspended, and when the clock is set.
func WallLead(at time.Time) time.Duration {
	return time.Duration(at.UnixNano()-int64(startAt)) - at.Sub(start)
}

// Add returns the moment that is so much later.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns how much later t is than u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Until returns how long it is until t.
func Until(t Time) time.Duration { return t.Sub(Now()) }

// IsZero reports whether t is no moment.
func (t Time) IsZero() bool { return t == 0 }

// Time returns t with what the wall clock will say then, as it goes now.
func (t Time) Time() time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(t.Sub(Of(now)))
}

// suspensions are those of this host.
var suspensions = &sleeper{measure: measure}

// sleeper knows for how long a host has been suspended since the program's start. To ask the system costs as much as a dozen
// looks at the wall clock, which are at hand: so what was found is used again for a while.
type sleeper struct {
	measure func() (asleep time.Duration, ok bool)
	last    atomic.Pointer[sight] // nil: atStart
}

// sight is what was found when the program had run for so long, as the monotonic clock says.
type sight struct{ ran, lead, asleep time.Duration }

var atStart sight

// until is for how long the host was suspended until the program had run for so long, and the wall clock was ahead by lead.
func (s *sleeper) until(ran, lead time.Duration) time.Duration {
	for {
		stored := s.last.Load()
		last := cmp.Or(stored, &atStart)
		if (ran-last.ran).Abs() < remeasure && (lead-last.lead).Abs() < jitter {
			return last.asleep
		}
		found := &sight{ran, lead, s.find(last, lead)}
		if s.last.CompareAndSwap(stored, found) {
			return found.asleep
		}
	}
}

// find measures for how long the host has been suspended, or guesses it.
func (s *sleeper) find(last *sight, lead time.Duration) time.Duration {
	asleep, measured := s.measure()
	switch {
	case measured && (asleep-last.asleep).Abs() > jitter:
		return asleep
	case measured:
		return last.asleep
	}
	if ahead := lead - last.lead; ahead > jump && ahead < tooFar {
		return last.asleep + ahead
	}
	return last.asleep
}
