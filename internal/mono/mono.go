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

import "time"

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
func Of(now time.Time) Time { return At(now, Asleep(now)) }

// At is the moment t, if the host has been suspended for so long between the program's start and t.
func At(t time.Time, asleep time.Duration) Time { return startAt + Time(t.Sub(start)+asleep) }

// Asleep is for how long the host has been suspended between the program's start and now, which was read
// from the clock just now.
func Asleep(now time.Time) time.Duration { return suspensions.until(now.Sub(start), WallLead(now)) }

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
