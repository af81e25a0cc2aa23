package waitqueue

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// This file passes the lock on inside the process: to the first who waits, or to all who may
// share it.

// Holder is who has a lock and may hand it over to the queue's first. Holders are compared.
type Holder interface {
	// Refusal is why a waiter does not have the lock.
	Refusal() error
}

// SetJoinable notes what newcomers may join who want the lock with the given key. Nobody asks for it
// until EndJoinable, or [Waiter.AskAll].
func (qs *Queues[T, J]) SetJoinable(key Key, what *J) {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(key)
	if q.joinable == nil {
		qs.joinables.Add(1)
	}
	q.joinable = what
}

// Joinable returns what SetJoinable has noted; nil if there is nothing.
func (qs *Queues[T, J]) Joinable(key Key) *J {
	if qs.joinables.Load() == 0 {
		return nil
	}
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[key]; q != nil {
		return q.joinable
	}
	return nil
}

// EndJoinable ends what SetJoinable has noted, unless that is something else by now, and has the queue's
// first ask: after a while, if others are to have their turn before.
func (qs *Queues[T, J]) EndJoinable(key Key, what *J, after time.Duration) {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[key]; q != nil && q.joinable == what {
		q.endJoinable(after)
	}
}

// AskAll has the queue's first ask, though there is still something to join.
func (w *Waiter[T, J]) AskAll() {
	w.inQueue(func(q *Queue[T, J]) {
		if q.joinable != nil {
			q.endJoinable(0)
		}
	})
}

// endJoinable ends what newcomers may join. The shard's mu is held.
func (q *Queue[T, J]) endJoinable(after time.Duration) {
	q.shard.all.joinables.Add(-1)
	q.joinable = nil
	q.askAgain(after)
}

// askAgain has the first ask: after a while, if others are to have their turn before. The shard's mu is
// held.
func (q *Queue[T, J]) askAgain(after time.Duration) {
	q.lore.NotBefore = 0
	if after > 0 {
		q.lore.NotBefore = mono.Now().Add(after)
	}
	q.promote()
	q.tidy()
}

// Received is closed when the lock has been handed over to the waiter. While others are ahead, Head is closed then, too.
func (w *Waiter[T, J]) Received() <-chan struct{} {
	w.queue.shard.mu.Lock()
	defer w.queue.shard.mu.Unlock()
	switch {
	case w.state == received:
		return closed
	case w.received == nil && w.taker != nil:
		w.received = make(chan struct{})
	}
	return w.received
}

// HasReceived reports whether the lock was handed over to the waiter.
func (w *Waiter[T, J]) HasReceived() bool {
	w.queue.shard.mu.Lock()
	defer w.queue.shard.mu.Unlock()
	return w.state == received
}

// Heard notes how many subscribers have heard that a holder has given the lock back, and whether one of another process has it now.
// It reports whether anybody else is among the subscribers.
func (q *Queue[T, J]) Heard(holder Holder, n int64, granted bool) (others bool) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	others = n > 1 || n == 1 && q.unsubscribe == nil
	if q.holder == holder { // else the queue asks again, or is another lock's
		q.unheard = !others && !granted
	}
	return others
}

// Unheard reports whether nobody else has heard, the last time.
func (q *Queue[T, J]) Unheard() bool {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	return q.unheard
}

// HandOver hands the lock over to the first waiter in the queue with the given key, if
// there is one, no try is under way, and nobody else holds the lock here. hand does it, or
// reports false if that waiter cannot take it; it must not block, or call the queue. The
// waiter has left the queue then, and nobody asks until Resume of the queue, which is nil if
// nothing was handed over.
func (qs *Queues[T, J]) HandOver(key Key, holder Holder, hand func(taker *T) bool) *Queue[T, J] {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if q == nil || q.waiters.Len() == 0 || len(q.trySlot) > 0 || q.holder != nil && q.holder != holder {
		return nil
	}
	first := q.waiters.First().Value
	if first.taker == nil || !hand(first.taker) {
		return nil
	}
	q.give(first)
	q.holder = holder
	return q
}

// give takes a waiter out that was handed the lock. The shard's mu is held.
func (q *Queue[T, J]) give(w *Waiter[T, J]) {
	if w.state == behind {
		close(w.head)
	}
	q.remove(w, received)
	q.failed = nil // that was before
	if w.received != nil {
		close(w.received)
	}
}

// LetIn hands the lock out to those in the queue with the given key whom hand accepts, which is
// as for HandOver: all of them hold it. It reports whether nobody was left out, as one is whose
// try is under way.
func (qs *Queues[T, J]) LetIn(key Key, hand func(taker *T) bool) (all bool) {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	if q == nil {
		return true
	}
	for node := q.waiters.First(); node != nil; {
		w := node.Value
		node = node.Next()
		if w.taker != nil && (w.state == behind || len(q.trySlot) == 0) && hand(w.taker) {
			q.give(w)
		}
	}
	all = q.waiters.Len() == 0
	q.promote()
	q.tidy()
	return all
}

// Resume has the queue's first ask, since the holder has the lock no more: after a while, if
// others are to have their turn before.
func (q *Queue[T, J]) Resume(holder Holder, after time.Duration) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.holder != holder {
		return
	}
	q.holder, q.former = nil, holder
	q.askAgain(after)
}
