package waitqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/list"
)

// Queues are all queues of one client. Use [New].
type Queues struct {
	// listen subscribes a queue to a lock's channel until the returned function is
	// called. It must call Notify for every message and every subscription, and
	// NotifyTaken in place of that for messages which say so.
	listen func(channel string, q *Queue) (leave func())

	waiters   atomic.Int64 // in all queues; changed under mu
	joinables atomic.Int64 // how many queues have something to join; changed under mu

	mu     sync.Mutex
	queues map[Key]*Queue
	spare  *Queue // the last one that nobody needs any more
}

// Key says which queue is meant.
type Key struct {
	Kind, Name string
	Channel    string // what the queue listens to
}

// Queue is the line for one lock. Its fields are guarded by Queues.mu.
type Queue struct {
	queues      *Queues
	key         Key
	waiters     list.List[*Waiter]
	wake        chan struct{}
	taken       chan struct{} // others have got the lock since wake
	trySlot     chan struct{}
	unsubscribe func() // ends the subscription; nil if there is none
	retryAt     time.Time
	refusal     error
	holder      Holder    // who has the lock, here, and will pass it on or say so; nil: nobody known
	former      Holder    // who had it last, if nobody has been refused since
	notBefore   time.Time // others have their turn before the head asks
	joinable    any       // what newcomers may join in place of waiting; nil: nothing
	unheard     bool      // nobody else has heard when the lock was given back here
	crowd       Crowd     // who waits, here and elsewhere
}

// Crowd is what the last refusal has told of those who wait for a lock.
type Crowd struct {
	Size int           // 0: not known
	Trip time.Duration // how long that try took
}

// Holder is who has a lock and may hand it over to the queue's first. Holders are compared.
type Holder interface {
	// Refusal is why a waiter does not have the lock.
	Refusal() error
}

// state is where a waiter is on its way.
type state uint8

const (
	inLine state = iota
	atHead
	received // it has been handed the lock, and is in the queue no more
	departed
)

// Waiter is one waiter in a queue.
type Waiter struct {
	taker any // what the lock is handed over to; nil: nothing
	queue *Queue
	node  list.Node[*Waiter] // of the queue
	state state              // guarded by Queues.mu

	head     chan struct{}
	received chan struct{} // nil until somebody asks; guarded by Queues.mu
}

// closed is the head channel of those who find the queue empty.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// New returns an empty set of queues.
func New(listen func(channel string, q *Queue) (leave func())) *Queues {
	return &Queues{listen: listen, queues: map[Key]*Queue{}}
}

// Join appends a waiter to the queue with the given key, and returns how many are ahead.
// taker is nil if the lock must not be handed over to it.
func (qs *Queues) Join(key Key, taker any) (w *Waiter, ahead int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queue(key)
	w = &Waiter{taker: taker, queue: q, head: closed}
	w.node.Value = w
	q.waiters.InsertAfter(&w.node, q.waiters.Last())
	qs.waiters.Add(1)
	if q.holder == nil && q.joinable == nil && q.waiters.Len() == 1 {
		w.state = atHead
	} else {
		w.head = make(chan struct{})
	}
	return w, q.waiters.Len() - 1
}

// queue returns the queue with a key, and makes it if need be. qs.mu is held.
func (qs *Queues) queue(key Key) *Queue {
	q := qs.queues[key]
	if q == nil {
		q, qs.spare = qs.spare, nil
		if q == nil {
			q = &Queue{queues: qs, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1), trySlot: make(chan struct{}, 1)}
		}
		q.key = key
		qs.queues[key] = q
	}
	return q
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

// TryFirst takes the try slot for a waiter at the head, if nobody has tried yet; the one
// who has it calls Done after the try.
func (w *Waiter) TryFirst() bool {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	q := w.queue
	if w.state != atHead || !q.retryAt.IsZero() {
		return false
	}
	select {
	case q.trySlot <- struct{}{}:
		return true
	default:
		return false
	}
}

// HasWaiters reports whether anybody waits in the queue with the given key, or a try of
// one who has left is still under way.
func (qs *Queues) HasWaiters(key Key) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queues[key]
	return q != nil && (q.waiters.Len() > 0 || len(q.trySlot) > 0)
}

// Head is closed when the waiter is to ask: all who came before have left, and no holder
// here will hand the lock over.
func (w *Waiter) Head() <-chan struct{} { return w.head }

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

// Wake receives when the head should try again. Wake-ups that nobody has received
// yet count as one.
func (w *Waiter) Wake() <-chan struct{} { return w.queue.wake }

// Notify wakes the queue's head.
func (w *Waiter) Notify() { w.queue.Notify() }

// Notify wakes the queue's head.
func (q *Queue) Notify() {
	select {
	case <-q.taken: // that was before
	default:
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Taken receives when others have got the lock since the last wake-up.
func (w *Waiter) Taken() <-chan struct{} { return w.queue.taken }

// NotifyTaken tells the queue's head that others have got the lock.
func (q *Queue) NotifyTaken() {
	select {
	case q.taken <- struct{}{}:
	default:
	}
}

// Crowd returns what SetCrowd has said last.
func (w *Waiter) Crowd() Crowd {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if w.gone() {
		return Crowd{}
	}
	return w.queue.crowd
}

// SetCrowd notes who waits.
func (w *Waiter) SetCrowd(c Crowd) {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if !w.gone() {
		w.queue.crowd = c
	}
}

// gone reports whether the waiter is in the queue no more: another lock may have it by now.
// qs.mu is held.
func (w *Waiter) gone() bool { return w.state == received || w.state == departed }

// TrySlot takes the right to try, when sending on the channel succeeds. The one
// who took it calls Done after the try, and until then the queue exists, and nothing is
// handed over to its first. Who has it looks whether it was given the lock before.
func (w *Waiter) TrySlot() chan<- struct{} { return w.queue.trySlot }

// Done gives the try slot back.
func (w *Waiter) Done() {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	<-w.queue.trySlot
	w.queue.tidy()
}

// Listen subscribes the queue, if it is not subscribed yet. It stays subscribed
// until its last waiter has left.
func (w *Waiter) Listen() {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if w.queue.unsubscribe == nil && !w.gone() {
		w.queue.unsubscribe = w.queue.queues.listen(w.queue.key.Channel, w.queue)
	}
}

// RetryAt says when to try again without a wake-up, and why the last try was refused.
func (w *Waiter) RetryAt(at time.Time, refusal error) {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if w.gone() {
		return
	}
	w.queue.retryAt = at
	if refusal != nil {
		w.queue.refusal, w.queue.unheard, w.queue.former = refusal, false, nil
	}
}

// Retry returns what RetryAt said last: the zero time and nil if nobody has tried. While
// a holder here has the lock, that one says why it is refused, and after that until somebody is
// refused by Redis.
func (w *Waiter) Retry() (at time.Time, refusal error) {
	w.queue.queues.mu.Lock()
	holder := w.queue.holder
	if holder == nil {
		holder = w.queue.former
	}
	if at, refusal = w.queue.retryAt, w.queue.refusal; w.gone() {
		at, refusal, holder = time.Time{}, nil, nil
	}
	w.queue.queues.mu.Unlock()
	if holder != nil {
		refusal = holder.Refusal()
	}
	return at, refusal
}

// NotBefore is before when the head does not ask, woken or not.
func (w *Waiter) NotBefore() time.Time {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if w.gone() {
		return time.Time{}
	}
	return w.queue.notBefore
}

// Leave removes the waiter, whether or not it has come to the head. It reports whether the
// lock was handed over to it before that: then it had left already.
func (w *Waiter) Leave() (handedOver bool) {
	w.queue.queues.mu.Lock()
	defer w.queue.queues.mu.Unlock()
	if w.gone() {
		return w.state == received
	}
	q := w.queue
	q.remove(w, departed)
	q.promote()
	q.tidy()
	return false
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

// Idle reports whether nobody waits in any queue.
func (qs *Queues) Idle() bool { return qs.waiters.Load() == 0 }

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

// remove takes a waiter out. qs.mu is held.
func (q *Queue) remove(w *Waiter, s state) {
	q.waiters.Remove(&w.node)
	q.queues.waiters.Add(-1)
	w.state = s
}

// promote has the first ask, if nobody holds the lock here. qs.mu is held.
func (q *Queue) promote() {
	if first := q.waiters.First(); first != nil && q.holder == nil && q.joinable == nil && first.Value.state == inLine {
		first.Value.state = atHead
		close(first.Value.head)
	}
}

// tidy drops what the heads have learnt once nobody is left to keep it true, and forgets
// a queue that nobody needs. qs.mu is held.
func (q *Queue) tidy() {
	if q.waiters.Len() > 0 || q.holder != nil {
		return
	}
	if q.unsubscribe != nil {
		q.unsubscribe()
		q.unsubscribe = nil
	}
	q.retryAt, q.notBefore, q.refusal, q.former, q.unheard, q.crowd = time.Time{}, time.Time{}, nil, nil, false, Crowd{}
	for _, c := range []chan struct{}{q.wake, q.taken} {
		select {
		case <-c:
		default:
		}
	}
	if q.joinable == nil && len(q.trySlot) == 0 && q.queues.queues[q.key] == q {
		delete(q.queues.queues, q.key)
		q.queues.spare = q
	}
}
