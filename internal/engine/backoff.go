package engine

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long to pause between two tries.
type Backoff struct{ First, Longest time.Duration }

// Pause is how long to wait after so many tries that have failed before: at random, at most the longest, at least half of
// what it is doubled to by then.
func (b Backoff) Pause(tries int) time.Duration {
	d := b.First
	for range tries {
		if d >= b.Longest {
			break
		}
		d = min(2*d, b.Longest)
	}
	return d/2 + upTo(d/2)
}

// upTo returns a random time of at most d.
func upTo(d time.Duration) time.Duration {
	return rand.N(d + 1) //nolint:gosec // jitter: nobody gains by guessing it
}
