package driverkit

import (
	"sync"
	"sync/atomic"
	"time"
)

// SlotsInDoubt are slots of a cluster that are to be reached by new connections for a while, since the others to their
// nodes are in doubt: see [Doubt]. The zero value has none. It is safe for concurrent use.
type SlotsInDoubt struct {
	some  atomic.Bool // there are some
	mu    sync.Mutex
	until map[int64]time.Time // guarded by mu
}

// Add adds a slot for so long.
func (s *SlotsInDoubt) Add(slot int64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[int64]time.Time{}
	}
	s.until[slot] = time.Now().Add(d)
	s.some.Store(true)
}

// Some reports whether there are any; Has need not be asked if not.
func (s *SlotsInDoubt) Some() bool { return s.some.Load() }

// Has reports whether a slot is among them.
func (s *SlotsInDoubt) Has(slot int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, ok := s.until[slot]; ok && time.Now().After(until) {
		delete(s.until, slot)
		s.some.Store(len(s.until) > 0)
	}
	_, ok := s.until[slot]
	return ok
}
