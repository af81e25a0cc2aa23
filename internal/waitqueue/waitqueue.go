package waitqueue

import (
	"cmp"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/list"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// Queues are all queues of one client: of takers of type T, who may join a J. Use [New].
type Queues[T, J any] struct {
	// listen subscribes a queue to a lock's channel until the returned function is
	// called. The queue hears of every message and every subscription.
	listen func(channel string, q *Queue[T, J]) (leave func())

	waiters   atomic.Int64 // in all queues
	joinables atomic.Int64 // how many queues have something to join
	seed      maphash.Seed
	shards    []shard[T, J] // by name, so that different locks rarely share a mutex
}

// shard are some of the queues. mu guards them, and their waiters.
type shard[T, J any] struct {
	mu     sync.Mutex
	all    *Queues[T, J]
	queues map[Key]*Queue[T, J]
	spare  *Queue[T, J] // the last one that nobody needs any more
}

// of returns the shard of a key.
func (qs *Queues[T, J]) of(key Key) *shard[T, J] {
	return &qs.shards[maphash.String(qs.seed, key.Name)%uint64(len(qs.shards))]
}

// Key says which queue is meant.
type Key struct {
	Kind, Name string
	Channel    string // what the queue listens to
}

// Queue is those who wait for one lock. Its fields are guarded by its shard's mu.
type Queue[T, J any] struct {
	shard       *shard[T, J]
	key         Key
	waiters     list.List[*Waiter[T, J]]
	wake        chan struct{}
	trySlot     chan struct{}
	unsubscribe func() // ends the subscription; nil if there is none
	lore        Lore
	holder      Holder    // who has the lock, here, and will pass it on or say so; nil: nobody known
	former      Holder    // who had it last, if nobody has been refused since
	joinable    *J        // what newcomers may join in place of waiting; nil: nothing
	unheard     bool      // nobody else has heard when the lock was given back here
	unanswered  mono.Time // when the first request without a reply was sent; zero if there is none
	failing     error     // how an attempt of such a request failed; nil if none did
	failed      error     // with what the head before has given up, since nobody was answered; nil: it has not
}

// Lore is the knowledge that a queue keeps from its heads when they leave.
type Lore struct {
	// NotBefore is when the queue stops letting others go first; zero if it does not.
	NotBefore mono.Time
	// RetryAt is when the head sends its next request unless it is woken before; zero if no head has had a reply.
	RetryAt mono.Time
	// Refusal is why the last request was refused. While a holder of this process has the lock, and after that until Redis refuses
	// a request, it is why the holder refuses.
	Refusal error
}

// state is where a waiter is on its way.
type state uint8

const (
	departed state = iota
	behind
	atHead
	received // it has been handed the lock, and is in the queue no more
)

// Waiter is one waiter in a queue. The zero Waiter is in none, and as if it had left one.
type Waiter[T, J any] struct {
	taker *T // what the lock is handed over to; nil: nothing
	queue *Queue[T, J]
	node  list.Node[*Waiter[T, J]] // of the queue
	state state                    // guarded by the shard's mu

	head     chan struct{}
	received chan struct{} // nil until somebody asks; guarded by the shard's mu
}

// closed is the head channel of those who find the queue empty.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// New returns an empty set of queues.
func New[T, J any](listen func(channel string, q *Queue[T, J]) (leave func())) *Queues[T, J] {
	qs := &Queues[T, J]{listen: listen, seed: maphash.MakeSeed(), shards: make([]shard[T, J], 16)}
	for i := range qs.shards {
		qs.shards[i].all, qs.shards[i].queues = qs, map[Key]*Queue[T, J]{}
	}
	return qs
}

// Join appends a waiter to the queue with the given key, and returns how many are ahead. taker is nil if the lock must not be
// handed over to it. If first is set, it is at the head and nobody has tried yet: then it has the try slot, and sends a request now.
func (qs *Queues[T, J]) Join(w *Waiter[T, J], key Key, taker *T, now mono.Time) (ahead int, first bool) {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(key)
	w.taker, w.queue, w.head, w.node.Value = taker, q, closed, w
	q.waiters.InsertAfter(&w.node, q.waiters.Last())
	qs.waiters.Add(1)
	if q.holder != nil || q.joinable != nil || q.waiters.Len() > 1 {
		w.state, w.head = behind, make(chan struct{})
		return q.waiters.Len() - 1, false
	}
	w.state = atHead
	if q.lore.RetryAt == 0 {
		select {
		case q.trySlot <- struct{}{}:
			first, q.unanswered = true, now
		default:
		}
	}
	return 0, first
}

// queue returns the queue with a key, and makes it if need be. mu is held.
func (s *shard[T, J]) queue(key Key) *Queue[T, J] {
	q := s.queues[key]
	if q == nil {
		q, s.spare = s.spare, nil
		if q == nil {
			q = &Queue[T, J]{shard: s, wake: make(chan struct{}, 1), trySlot: make(chan struct{}, 1)}
		}
		q.key = key
		s.queues[key] = q
	}
	return q
}

// HasWaiters reports whether anybody waits in the queue with the given key, or a try of
// one who has left is still under way.
func (qs *Queues[T, J]) HasWaiters(key Key) bool {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	return q != nil && (q.waiters.Len() > 0 || len(q.trySlot) > 0)
}

// HeadHasNoReply reports whether the queue with the given key has a head, and no head of it has had a reply yet.
func (qs *Queues[T, J]) HeadHasNoReply(key Key) bool {
	s := qs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[key]
	return q != nil && q.waiters.Len() > 0 && q.lore.RetryAt.IsZero()
}

// Head is closed when the waiter is to ask: all who came before have left, and no holder
// here will hand the lock over. It is closed as well when the lock has been handed over to a waiter behind others.
func (w *Waiter[T, J]) Head() <-chan struct{} { return w.head }

// Wake receives when the head should try again. Wake-ups that nobody has received
// yet count as one.
func (w *Waiter[T, J]) Wake() <-chan struct{} { return w.queue.wake }

// Notify wakes the queue's head.
func (w *Waiter[T, J]) Notify() { w.queue.Notify() }

// Notify wakes the queue's head.
func (q *Queue[T, J]) Notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Hear wakes the queue's head, whatever was said.
func (q *Queue[T, J]) Hear(string) { q.Notify() }

// inQueue runs f with the shard's mu held, unless the waiter has gone.
func (w *Waiter[T, J]) inQueue(f func(q *Queue[T, J])) {
	w.queue.shard.mu.Lock()
	defer w.queue.shard.mu.Unlock()
	if !w.gone() {
		f(w.queue)
	}
}

// gone reports whether the waiter has left the queue, which may be another lock's by now.
// The shard's mu is held.
func (w *Waiter[T, J]) gone() bool { return w.state == received || w.state == departed }

// TrySlot takes the right to try, when sending on the channel succeeds. The one
// who took it calls Done after the try, and until then the queue exists, and nothing is
// handed over to its first. Who has it looks whether it was given the lock before.
func (w *Waiter[T, J]) TrySlot() chan<- struct{} { return w.queue.trySlot }

// Done gives the try slot back.
func (w *Waiter[T, J]) Done() {
	w.queue.shard.mu.Lock()
	defer w.queue.shard.mu.Unlock()
	<-w.queue.trySlot
	w.queue.tidy()
}

// Listen subscribes the queue, or ends that. It stays subscribed until its last waiter has left.
func (w *Waiter[T, J]) Listen(on bool) {
	w.inQueue(func(q *Queue[T, J]) {
		switch {
		case on && q.unsubscribe == nil:
			q.unsubscribe = q.shard.all.listen(q.key.Channel, q)
		case !on && q.unsubscribe != nil:
			q.unsubscribe()
			q.unsubscribe = nil
		}
	})
}

// RetryAt sets when to send the next request without a wake-up, and why the last one was refused; nil leaves that as it is.
func (w *Waiter[T, J]) RetryAt(at mono.Time, refusal error) {
	w.inQueue(func(q *Queue[T, J]) {
		q.lore.RetryAt, q.unanswered, q.failing = at, 0, nil
		if refusal != nil {
			q.lore.Refusal, q.unheard, q.former = refusal, false, nil
		}
	})
}

// Asked notes that the head sends a request, and Failing how an attempt of it failed. RetryAt, LeaveAfter and Answered note the
// reply. GiveUp returns these notes to a waiter whose time ends before that.
func (w *Waiter[T, J]) Asked(now mono.Time) {
	w.inQueue(func(q *Queue[T, J]) {
		if q.unanswered.IsZero() { // else the head before has left without a reply
			q.unanswered = now
		}
	})
}

// Failing is described at Asked. A waiter that has never joined a queue may call it.
func (w *Waiter[T, J]) Failing(why error) {
	if w.queue != nil {
		w.inQueue(func(q *Queue[T, J]) { q.failing = why })
	}
}

// Answered notes that there was a reply to the waiter's request, which may have come after it left. It is called before Done.
func (w *Waiter[T, J]) Answered() {
	w.queue.shard.mu.Lock()
	defer w.queue.shard.mu.Unlock()
	w.queue.unanswered, w.queue.failing = 0, nil
}

// Lore returns what the heads of the waiter's queue have learnt; nothing if the waiter has left it.
func (w *Waiter[T, J]) Lore() (lore Lore) {
	var holder Holder
	w.inQueue(func(q *Queue[T, J]) {
		lore, holder = q.lore, q.holder
		if holder == nil {
			holder = q.former
		}
	})
	if holder != nil { // not with the mutex held: a holder has its own
		lore.Refusal = holder.Refusal()
	}
	return lore
}

// LeaveAfter is Leave of one at the head that has asked, and was let in: RetryAt and Done besides, unless it keeps the slot. If it is
// a holder that will hand the lock over, and somebody stands behind it, nobody asks until the holder calls Resume of the queue
// that is returned; else that is nil.
func (w *Waiter[T, J]) LeaveAfter(retryAt mono.Time, keepsSlot bool, holder Holder) *Queue[T, J] {
	q := w.queue
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.lore.RetryAt = cmp.Or(retryAt, q.lore.RetryAt)
	q.unanswered, q.failing = 0, nil
	q.remove(w, departed)
	if !keepsSlot {
		<-q.trySlot
	}
	if holder != nil && q.waiters.Len() > 0 {
		q.holder = holder
		return q
	}
	q.promote()
	q.tidy()
	return nil
}

// Leave removes the waiter, whether or not it has come to the head. It reports whether the
// lock was handed over to it before that: then it had left already.
func (w *Waiter[T, J]) Leave() (handedOver bool) {
	handedOver, _, _ = w.GiveUp()
	return handedOver
}

// GiveUp is Leave. If a request of the queue is without a reply, it also returns when the first such request was sent, and how an
// attempt of it failed; otherwise the zero time and nil.
func (w *Waiter[T, J]) GiveUp() (handedOver bool, since mono.Time, failing error) {
	if w.queue == nil { // it has never joined one
		return false, since, nil
	}
	w.queue.shard.mu.Lock()
	defer w.queue.shard.mu.Unlock()
	if w.gone() {
		return w.state == received, since, nil
	}
	q := w.queue
	since, failing = q.unanswered, q.failing
	q.remove(w, departed)
	q.promote()
	q.tidy()
	return false, since, failing
}

// Fail says that the head is about to leave since Redis does not answer. The next one may take that for its own failure.
func (w *Waiter[T, J]) Fail(why error) {
	w.inQueue(func(q *Queue[T, J]) { q.failed = why })
}

// TakeFailure returns with what the head before has given up, since Redis did not answer; nil if it has not.
func (w *Waiter[T, J]) TakeFailure() (why error) {
	w.inQueue(func(q *Queue[T, J]) { why, q.failed = q.failed, nil })
	return why
}

// Idle reports whether nobody waits in any queue.
func (qs *Queues[T, J]) Idle() bool { return qs.waiters.Load() == 0 }

// remove takes a waiter out. The shard's mu is held.
func (q *Queue[T, J]) remove(w *Waiter[T, J], s state) {
	q.waiters.Remove(&w.node)
	q.shard.all.waiters.Add(-1)
	w.state = s
}

// promote has the first ask, if nobody holds the lock here. The shard's mu is held.
func (q *Queue[T, J]) promote() {
	if first := q.waiters.First(); first != nil && q.holder == nil && q.joinable == nil && first.Value.state == behind {
		first.Value.state = atHead
		close(first.Value.head)
	}
}

// tidy drops what the heads have learnt once nobody is left to keep it true, and forgets
// a queue that nobody needs. The shard's mu is held.
func (q *Queue[T, J]) tidy() {
	if q.waiters.Len() > 0 || q.holder != nil {
		return
	}
	if q.unsubscribe != nil {
		q.unsubscribe()
		q.unsubscribe = nil
	}
	q.lore, q.former, q.unheard, q.failed = Lore{}, nil, false, nil
	q.unanswered, q.failing = 0, nil
	select {
	case <-q.wake:
	default:
	}
	if q.joinable == nil && len(q.trySlot) == 0 && q.shard.queues[q.key] == q {
		delete(q.shard.queues, q.key)
		q.shard.spare = q
	}
}
