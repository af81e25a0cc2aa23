// Package mono has moments of the monotonic clock in 8 bytes, where a [time.Time] takes 24:
// for what there is ten thousand times.
//
// They say nothing of the wall clock. Whether the host was suspended between two moments,
// only two values of time.Time can tell.
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
func Now() Time { return startAt + Time(time.Since(start)) }

// Of is the moment that t was read from the clock, or reckoned from such a one.
func Of(t time.Time) Time { return startAt + Time(t.Sub(start)) }

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
