package rueidisdriver

import (
	"sync"
	"sync/atomic"
	"time"
)

// doubtedSlots are the slots of a cluster to whose nodes calls go by the blocking pool, and until when. The
// client's other connections are in doubt.
type doubtedSlots struct {
	some  atomic.Bool // there are some
	mu    sync.Mutex
	until map[int64]time.Time // guarded by mu
}

// add adds a slot.
func (s *doubtedSlots) add(slot int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[int64]time.Time{}
	}
	s.until[slot] = time.Now().Add(spareLife)
	s.some.Store(true)
}

// has reports whether a slot is among them.
func (s *doubtedSlots) has(slot int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until, ok := s.until[slot]; ok && time.Now().After(until) {
		delete(s.until, slot)
		s.some.Store(len(s.until) > 0)
	}
	_, ok := s.until[slot]
	return ok
}
