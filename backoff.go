package holdfast

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// backoff is how long a polling waiter pauses between two tries.
type backoff struct{ first, longest time.Duration }

func (b backoff) check() error {
	if b.first < 100*time.Microsecond || b.longest < b.first || b.longest > time.Hour {
		return fmt.Errorf("holdfast: %w option: a backoff from %v to %v", ErrInvalid, b.first, b.longest)
	}
	return nil
}

// pause is how long to wait after so many tries that have failed before.
func (b backoff) pause(tries int) time.Duration {
	d := b.first
	for range tries {
		if d >= b.longest {
			break
		}
		d = min(2*d, b.longest)
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter, not a secret
}
