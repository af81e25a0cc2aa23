package waitqueue

import "time"

// This file passes the lock on inside the process: to the first who waits, or to all who may
// share it.

// Holder is who has a lock and may hand it over to the queue's first. Holders are compared.
type Holder interface {
	// Refusal is why a waiter does not have the lock.
	Refusal() error
}

// SetJoinable notes what newcomers may join who want the lock with the given key. Nobody asks for it
// until EndJoinable, or [Waiter.AskAll].
func (qs *Queues) SetJoinable(key Key, what any) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queue(key)
	if q.joinable == nil {
		qs.joinables.Add(1)
	}
	q.joinable = what
}

// Joinable returns what SetJoinable has noted; nil if there is nothing.
func (qs *Queues) Joinable(key Key) any {
	if qs.joinables.Load() == 0 {
		return nil
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.queues[key]; q != nil {
		return q.joinable
	}
	return nil
}

// EndJoinable ends what SetJoinable has noted, unless that is something else by now, and has the queue's
// first ask: after a while, if others are to have their turn before.
func (qs *Queues) EndJoinable(key Key, what any, after time.Duration) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.queues[key]; q != nil && q.joinable == what {
		q.endJoinable(after)
	}
}

// AskAll has the queue's first ask, though there is still something to join.
func (w *Waiter) AskAll() {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if !w.gone() && w.queue.joinable != nil {
		w.queue.endJoinable(0)
	}
}

// endJoinable ends what newcomers may join. qs.mu is held.
func (q *Queue) endJoinable(after time.Duration) {
	q.queues.joinables.Add(-1)
	q.joinable = nil
	q.askAgain(after)
}

// askAgain has the first ask: after a while, if others are to have their turn before. qs.mu is
// held.
func (q *Queue) askAgain(after time.Duration) {
	q.notBefore = time.Time{}
	if after > 0 {
		q.notBefore = time.Now().Add(after)
	}
	q.promote()
	q.tidy()
}

// Received is closed when the lock has been handed over to the waiter.
func (w *Waiter) Received() <-chan struct{} {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	switch {
	case w.state == received:
		return closed
	case w.received == nil && w.taker != nil:
		w.received = make(chan struct{})
	}
	return w.received
}

// HasReceived reports whether the lock was handed over to the waiter.
func (w *Waiter) HasReceived() bool {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	return w.state == received
}

// LeaveHolding is Leave of one who has got the lock and will hand it over, if anybody
// stands behind it; else it returns nil. Nobody asks until the holder calls Resume of the
// queue that is returned. The waiter is at the head.
func (w *Waiter) LeaveHolding(holder Holder) *Queue {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	q := w.queue
	q.remove(w, departed)
	if q.waiters.Len() > 0 {
		q.holder = holder
		return q
	}
	q.tidy()
	return nil
}

// Heard notes how many subscribers have heard that a holder has given the lock back, and reports
// whether anybody else is among them.
func (q *Queue) Heard(holder Holder, n int64) (others bool) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	others = n > 1 || n == 1 && q.unsubscribe == nil
	if q.holder == holder { // else the queue asks again, or is another lock's
		q.unheard = !others
	}
	return others
}

// Unheard reports whether nobody else has heard, the last time.
func (q *Queue) Unheard() bool {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	return q.unheard
}

// HandOver hands the lock over to the first waiter in the queue with the given key, if
// there is one, no try is under way, and nobody else holds the lock here. hand does it, or
// reports false if that waiter cannot take it; it must not block, or call the queue. The
// waiter has left the queue then, and nobody asks until Resume of the queue, which is nil if
// nothing was handed over.
func (qs *Queues) HandOver(key Key, holder Holder, hand func(taker any) bool) *Queue {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queues[key]
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

// give takes a waiter out that was handed the lock. qs.mu is held.
func (q *Queue) give(w *Waiter) {
	q.remove(w, received)
	if w.received != nil {
		close(w.received)
	}
}

// LetIn hands the lock out to those in the queue with the given key whom hand accepts, which is
// as for HandOver: all of them hold it. It reports whether nobody was left out, as one is whose
// try is under way.
func (qs *Queues) LetIn(key Key, hand func(taker any) bool) (all bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queues[key]
	if q == nil {
		return true
	}
	for node := q.waiters.First(); node != nil; {
		w := node.Value
		node = node.Next()
		if w.taker != nil && (w.state == inLine || len(q.trySlot) == 0) && hand(w.taker) {
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
func (q *Queue) Resume(holder Holder, after time.Duration) {
	q.queues.mu.Lock()
	defer q.queues.mu.Unlock()
	if q.holder != holder {
		return
	}
	q.holder, q.former = nil, holder
	q.askAgain(after)
}
