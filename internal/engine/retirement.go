package engine

import (
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// retirement knows the owners that nobody may lock as: their holds were detached, and another process is about to replace
// them; or they are nobody's. The zero value has none.
type retirement struct {
	mu      sync.Mutex
	until   map[accountKey]mono.Time // guarded by mu
	sweepAt int                      // how many there may be before the old ones are dropped; guarded by mu
	some    atomic.Bool              // there have been any
}

// add notes that nobody may lock as the owner until then.
func (r *retirement) add(key accountKey, until mono.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.some.Store(true)
	if len(r.until) >= r.sweepAt { // not each time: there may be many
		now := mono.Now()
		for other, end := range r.until {
			if end < now {
				delete(r.until, other)
			}
		}
		r.sweepAt = 2*len(r.until) + 16
	}
	if r.until == nil {
		r.until = map[accountKey]mono.Time{}
	}
	r.until[key] = until
}

// has reports whether nobody may lock as the owner now.
func (r *retirement) has(key accountKey) bool {
	if !r.some.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return mono.Now() < r.until[key]
}
