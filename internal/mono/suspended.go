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
