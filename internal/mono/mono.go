// Package mono represents a moment in 8 bytes, where a [time.Time] takes 24. It is for structures
// that exist ten thousand times.
//
// Moments are on a clock that nobody sets and that keeps running while the host is suspended, as
// the clocks of servers do: Go's monotonic clock, plus the time for which that clock stood still.
//
// # Suspensions
//
//   - Linux measures them: CLOCK_BOOTTIME keeps running, and nobody sets it.
//   - On Windows there is nothing to add: the clock that Go reads keeps running.
//   - Elsewhere they are guessed. If the wall clock gains on the monotonic one, either the host was
//     suspended or the wall clock was set; the package assumes a suspension. A gain of ten years or
//     more is a clock that was set, as on a computer without a battery. A wall clock that is set
//     back is ignored.
//
// A virtual machine that its host pauses or restores may see no sign of that except a wall clock
// that is set afterwards. The package does not count that as a suspension on Linux and Windows;
// [WallLead] shows it.
package mono

import (
	"cmp"
	"sync/atomic"
	"time"
)

const (
	// remeasure is the longest time between two measurements. A jump of the wall clock causes one at once: the wall clock
	// jumps after a suspension, unless it is set back in that instant.
	remeasure = 50 * time.Millisecond
	// jitter is the largest change of the wall clock's lead, or of the measured suspension, that means nothing.
	jitter = time.Millisecond
	// jump is the smallest gain of the wall clock between two measurements that is taken for a suspension: a clock that is
	// being slewed gains less. A gain of tooFar or more is a clock that was set.
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

// Now returns this moment.
func Now() Time { return Of(time.Now()) }

// Of returns the moment of now, which must just have been read from the clock: an older time would look like a wall clock that
// was set back.
func Of(now time.Time) Time {
	ran := now.Sub(start)
	return startAt + Time(ran+suspensions.until(ran, time.Duration(now.UnixNano()-int64(startAt))-ran))
}

// Read returns the moment of now, as Of does, and the host's total suspension between the program's start and now.
func Read(now time.Time) (at Time, asleep time.Duration) {
	at = Of(now)
	return at, time.Duration(at-startAt) - now.Sub(start)
}

// WallLead returns how far the wall clock has gained on the monotonic one since the program's start. It grows when the
// host was suspended, and when the clock is set forward.
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

// suspensions tracks the suspensions of this host.
var suspensions = &sleeper{measure: measure}

// sleeper tracks a host's total suspension since the program's start. It reuses a measurement for a while, because a measurement
// costs a dozen times as much as reading the wall clock.
type sleeper struct {
	measure func() (asleep time.Duration, ok bool)
	last    atomic.Pointer[sight] // nil: atStart
}

// sight is one measurement: how long the program had run by the monotonic clock, the wall clock's lead, and the total suspension.
type sight struct{ ran, lead, asleep time.Duration }

var atStart sight

// until returns the total suspension up to the moment at which the program has run for ran and the wall clock's lead is lead. That
// must be the present moment: of an earlier one nothing is learned, and the answer is that of the last measurement.
func (s *sleeper) until(ran, lead time.Duration) time.Duration {
	for {
		stored := s.last.Load()
		last := cmp.Or(stored, &atStart)
		if since := ran - last.ran; since < 0 || since < remeasure && (lead-last.lead).Abs() < jitter {
			return last.asleep
		}
		found := &sight{ran, lead, s.find(last, lead)}
		if s.last.CompareAndSwap(stored, found) {
			return found.asleep
		}
	}
}

// find measures the total suspension, or guesses it.
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
