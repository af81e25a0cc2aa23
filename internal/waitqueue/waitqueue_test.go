package waitqueue

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// listening counts subscriptions.
type listening struct {
	begun, ended int
	notify       func()
}

// What the tests hand over are numbers, and what is joined is a text.
type (
	queues = Queues[int, string]
	queue  = Queue[int, string]
	waiter = Waiter[int, string]
)

// newQueues are in one shard, so that one lock's queue may become another's.
func newQueues(listen func(string, *queue) func()) *queues {
	qs := New(listen)
	qs.shards = qs.shards[:1]
	return qs
}

// enter joins a queue, and does not try yet. A taker of 0 is none.
func enter(qs *queues, key Key, taker int) *waiter {
	w, takes := new(waiter), &taker
	if taker == 0 {
		takes = nil
	}
	if _, first := qs.Join(w, key, takes, mono.Now()); first {
		w.Done()
	}
	return w
}

// tryFirst takes the try slot if nobody has tried yet, and reports whether it did.
func tryFirst(w *waiter) bool {
	if !w.Lore().RetryAt.IsZero() || !isHead(w) {
		return false
	}
	select {
	case w.TrySlot() <- struct{}{}:
		return true
	default:
		return false
	}
}

// left is how many queues there are.
func left(qs *queues) (n int) {
	for i := range qs.shards {
		n += len(qs.shards[i].queues)
	}
	return n
}

func newLines() (*queues, *listening) {
	l := &listening{}
	return newQueues(func(_ string, q *queue) func() {
		l.begun++
		l.notify = q.Notify
		return func() { l.ended++ }
	}), l
}

func isHead(p *waiter) bool {
	select {
	case <-p.Head():
		return true
	default:
		return false
	}
}

func notified(p *waiter) bool {
	select {
	case <-p.Wake():
		return true
	default:
		return false
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	queues, _ := newLines()
	a, b, c := join(queues, "x"), join(queues, "x"), join(queues, "x")
	other := join(queues, "y")
	if !isHead(a) || isHead(b) || isHead(c) || !isHead(other) {
		t.Fatal("the first of each queue is its head, and nobody else")
	}
	b.Leave() // from the middle: nobody moves up
	if isHead(c) {
		t.Fatal("moved up past the head")
	}
	a.Leave()
	if !isHead(c) {
		t.Fatal("the head has left, and nobody moved up")
	}
}

// What one head has learnt is there for the next.
func TestKnowledgeBelongsToTheQueue(t *testing.T) {
	queues, heard := newLines()
	a, b := join(queues, "x"), join(queues, "x")
	at, refusal := mono.Now(), errors.New("held")
	a.Listen(true)
	a.RetryAt(at, refusal)
	heard.notify()
	heard.notify()
	a.Leave()
	if got := b.Lore(); got != (Lore{RetryAt: at, Refusal: refusal}) {
		t.Errorf("Lore = %+v", got)
	}
	if !notified(b) || notified(b) {
		t.Error("two notifications that nobody heard must count as one")
	}
	b.Listen(true)
	if heard.begun != 1 || heard.ended != 0 {
		t.Errorf("subscribed %d times, ended %d times", heard.begun, heard.ended)
	}
	b.RetryAt(at, nil)
	if gotRefusal := b.Lore().Refusal; gotRefusal == nil {
		t.Error("the refusal was forgotten")
	}
}

// When the last one leaves, nothing stays: neither for a new queue nor for one
// that is kept by a try under way.
func TestNothingStays(t *testing.T) {
	for _, tryUnderWay := range []bool{false, true} {
		queues, heard := newLines()
		a := join(queues, "x")
		a.Listen(true)
		a.RetryAt(mono.Now(), errors.New("held"))
		if tryUnderWay {
			a.TrySlot() <- struct{}{}
		}
		heard.notify()
		a.Leave()
		if heard.ended != 1 {
			t.Error("the subscription stayed")
		}
		b := join(queues, "x")
		if lore := b.Lore(); lore != (Lore{}) || notified(b) {
			t.Errorf("the next queue knows %+v", lore)
		}
		select {
		case b.TrySlot() <- struct{}{}:
			if tryUnderWay {
				t.Error("two tries at once")
			}
			b.Done()
		default:
			if !tryUnderWay {
				t.Error("nobody tries, and the trySlot is not there")
			}
			a.Done()
		}
		b.Leave()
		if left(queues) != 0 {
			t.Errorf("%d queues left", left(queues))
		}
	}
}

func join(queues *queues, key string) *waiter {
	return enter(queues, Key{Channel: key}, 0)
}
