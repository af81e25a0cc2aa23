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
	// NotifyAcquired in place of that for messages which say so.
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
	queues            *Queues
	key               Key
	waiters           list.List[*Waiter]
	wake              chan struct{}
	acquiredElsewhere chan struct{} // others have got the lock since wake
	trySlot           chan struct{}
	unsubscribe       func() // ends the subscription; nil if there is none
	retryAt           time.Time
	refusal           error
	holder            Holder    // who has the lock, here, and will pass it on or say so; nil: nobody known
	former            Holder    // who had it last, if nobody has been refused since
	notBefore         time.Time // others have their turn before the head asks
	joinable          any       // what newcomers may join in place of waiting; nil: nothing
	unheard           bool      // nobody else has heard when the lock was given back here
	crowd             Crowd     // who waits, here and elsewhere
}

// Crowd is what the last refusal has told of those who wait for a lock.
type Crowd struct {
	Size int           // 0: not known
	Trip time.Duration // how long that try took
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
			q = &Queue{queues: qs, wake: make(chan struct{}, 1), acquiredElsewhere: make(chan struct{}, 1), trySlot: make(chan struct{}, 1)}
		}
		q.key = key
		qs.queues[key] = q
	}
	return q
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

// Wake receives when the head should try again. Wake-ups that nobody has received
// yet count as one.
func (w *Waiter) Wake() <-chan struct{} { return w.queue.wake }

// Notify wakes the queue's head.
func (w *Waiter) Notify() { w.queue.Notify() }

// Notify wakes the queue's head.
func (q *Queue) Notify() {
	select {
	case <-q.acquiredElsewhere: // that was before
	default:
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// AcquiredElsewhere receives when others have got the lock since the last wake-up.
func (w *Waiter) AcquiredElsewhere() <-chan struct{} { return w.queue.acquiredElsewhere }

// NotifyAcquired tells the queue's head that others have got the lock.
func (q *Queue) NotifyAcquired() {
	select {
	case q.acquiredElsewhere <- struct{}{}:
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

// Idle reports whether nobody waits in any queue.
func (qs *Queues) Idle() bool { return qs.waiters.Load() == 0 }

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
	for _, c := range []chan struct{}{q.wake, q.acquiredElsewhere} {
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
