package waitqueue

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/list"
)

// atHead is the head channel of those who find the queue empty.
var atHead = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Queues are all queues of one client. Use [New].
type Queues struct {
	// listen subscribes to a lock's channel until the returned function is
	// called. It must call notify for every message and every subscription.
	listen func(channel string, notify func()) (leave func())

	mu     sync.Mutex
	queues map[Key]*queue
	spare  *queue // the last one that nobody needs any more
}

// Key says which queue is meant.
type Key struct {
	Kind, Name string
	Channel    string // what the queue listens to
}

type queue struct {
	waiters     list.List[*Waiter] // the first is the head
	wake        chan struct{}
	trySlot     chan struct{}
	unsubscribe func() // ends the subscription; nil if there is none
	retryAt     time.Time
	refusal     error
}

// Waiter is one waiter in a queue.
type Waiter struct {
	queues *Queues
	key    Key
	queue  *queue
	head   chan struct{} // closed when the waiter is at the head

	node list.Node[*Waiter] // of the queue
}

// New returns an empty set of queues.
func New(listen func(channel string, notify func()) (leave func())) *Queues {
	return &Queues{listen: listen, queues: map[Key]*queue{}}
}

// Join appends a waiter to the queue with the given key, and returns how many are ahead.
func (qs *Queues) Join(key Key) (w *Waiter, ahead int) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.queues[key]
	if q == nil {
		q, qs.spare = qs.spare, nil
		if q == nil {
			q = &queue{wake: make(chan struct{}, 1), trySlot: make(chan struct{}, 1)}
		}
		qs.queues[key] = q
	}
	w = &Waiter{queues: qs, key: key, queue: q, head: atHead}
	if q.waiters.Len() > 0 {
		w.head = make(chan struct{})
	}
	w.node.Value = w
	q.waiters.InsertAfter(&w.node, q.waiters.Last())
	return w, q.waiters.Len() - 1
}

// TryFirst takes the try slot for a waiter at the head, if nobody has tried yet; the one
// who has it calls Done after the try.
func (w *Waiter) TryFirst() bool {
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	q := w.queue
	if q.waiters.First() != &w.node || !q.retryAt.IsZero() {
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
	return qs.queues[key] != nil
}

// Head is closed when all who came before have left.
func (w *Waiter) Head() <-chan struct{} { return w.head }

// Wake receives when the head should try again. Wake-ups that nobody has received
// yet count as one.
func (w *Waiter) Wake() <-chan struct{} { return w.queue.wake }

// Notify wakes the queue's head.
func (w *Waiter) Notify() { w.queue.notify() }

func (q *queue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// TrySlot takes the right to try, when sending on the channel succeeds. The one
// who took it calls Done after the try, and until then the queue exists.
func (w *Waiter) TrySlot() chan<- struct{} { return w.queue.trySlot }

// Done gives the try slot back.
func (w *Waiter) Done() {
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	<-w.queue.trySlot
	w.queues.tidy(w.key, w.queue)
}

// Listen subscribes the queue, if it is not subscribed yet. It stays subscribed
// until its last waiter has left.
func (w *Waiter) Listen() {
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	if w.queue.unsubscribe == nil {
		w.queue.unsubscribe = w.queues.listen(w.key.Channel, w.queue.notify)
	}
}

// RetryAt says when to try again without a wake-up, and why the last try was refused.
func (w *Waiter) RetryAt(at time.Time, refusal error) {
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	w.queue.retryAt = at
	if refusal != nil {
		w.queue.refusal = refusal
	}
}

// Retry returns what RetryAt said last: the zero time and nil if nobody has tried.
func (w *Waiter) Retry() (at time.Time, refusal error) {
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	return w.queue.retryAt, w.queue.refusal
}

// Leave removes the waiter, whether or not it has come to the head.
func (w *Waiter) Leave() {
	w.queues.mu.Lock()
	defer w.queues.mu.Unlock()
	q := w.queue
	wasHead := q.waiters.First() == &w.node
	q.waiters.Remove(&w.node)
	if next := q.waiters.First(); next != nil && wasHead {
		close(next.Value.head)
	}
	if q.waiters.Len() == 0 {
		q.forget()
	}
	w.queues.tidy(w.key, q)
}

// forget drops what the heads have learnt: nobody is left to keep it true.
func (q *queue) forget() {
	if q.unsubscribe != nil {
		q.unsubscribe()
		q.unsubscribe = nil
	}
	q.retryAt, q.refusal = time.Time{}, nil
	select {
	case <-q.wake:
	default:
	}
}

// tidy forgets a queue that nobody needs. qs.mu is held.
func (qs *Queues) tidy(key Key, q *queue) {
	if q.waiters.Len() == 0 && len(q.trySlot) == 0 && qs.queues[key] == q {
		delete(qs.queues, key)
		qs.spare = q
	}
}
