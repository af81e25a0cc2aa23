// Package binarysem is a semaphore of one, as a channel of capacity 1 is: whoever sends
// has it, and whoever receives gives it back. Most are never waited for. So the channel is
// made when somebody has to wait, and until then the semaphore is one word.
package binarysem

import "sync/atomic"

// Sem is a semaphore of one. The zero Sem is free. It must not be copied.
type Sem struct {
	// state is nil while it is free, and taken while somebody has it. Once somebody has had
	// to wait, it is the channel, for good.
	state atomic.Pointer[chan struct{}]
}

// taken is what a semaphore without a channel points to while somebody has it.
var taken = new(chan struct{})

// TryTake takes it if it is free, and reports whether it was.
func (s *Sem) TryTake() bool {
	if s.state.CompareAndSwap(nil, taken) {
		return true
	}
	sem := s.state.Load()
	if sem == nil || sem == taken { // nil: it was taken until just now
		return false
	}
	select {
	case *sem <- struct{}{}:
		return true
	default:
		return false
	}
}

// Chan returns the channel for those who have to wait: whoever sends on it has taken the
// semaphore. They take it in the order in which they came.
func (s *Sem) Chan() chan<- struct{} {
	for {
		before := s.state.Load()
		if before != nil && before != taken {
			return *before
		}
		sem := make(chan struct{}, 1)
		if before == taken {
			sem <- struct{}{}
		}
		if s.state.CompareAndSwap(before, &sem) {
			return sem
		}
	}
}

// Free gives it back. Only who has it may.
func (s *Sem) Free() {
	if !s.state.CompareAndSwap(taken, nil) {
		<-*s.state.Load()
	}
}
