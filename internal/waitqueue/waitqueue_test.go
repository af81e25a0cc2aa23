package waitqueue

import (
	"errors"
	"testing"
	"time"
)

// listening counts subscriptions.
type listening struct {
	begun, ended int
	notify       func()
}

func newLines() (*Queues, *listening) {
	l := &listening{}
	return New(func(_ string, q *Queue) func() {
		l.begun++
		l.notify = q.Notify
		return func() { l.ended++ }
	}), l
}

func isHead(p *Waiter) bool {
	select {
	case <-p.Head():
		return true
	default:
		return false
	}
}

func notified(p *Waiter) bool {
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
	at, refusal := time.Now(), errors.New("held")
	a.Listen()
	a.RetryAt(at, refusal)
	heard.notify()
	heard.notify()
	a.Leave()
	if gotAt, gotRefusal := b.Retry(); !gotAt.Equal(at) || gotRefusal != refusal { //nolint:errorlint // the same one
		t.Errorf("Next = %v, %v", gotAt, gotRefusal)
	}
	if !notified(b) || notified(b) {
		t.Error("two notifications that nobody heard must count as one")
	}
	b.Listen()
	if heard.begun != 1 || heard.ended != 0 {
		t.Errorf("subscribed %d times, ended %d times", heard.begun, heard.ended)
	}
	b.RetryAt(at, nil)
	if _, gotRefusal := b.Retry(); gotRefusal == nil {
		t.Error("the refusal was forgotten")
	}
}

// When the last one leaves, nothing stays: neither for a new queue nor for one
// that is kept by a try under way.
func TestNothingStays(t *testing.T) {
	for _, tryUnderWay := range []bool{false, true} {
		queues, heard := newLines()
		a := join(queues, "x")
		a.Listen()
		a.RetryAt(time.Now(), errors.New("held"))
		if tryUnderWay {
			a.TrySlot() <- struct{}{}
		}
		heard.notify()
		a.Leave()
		if heard.ended != 1 {
			t.Error("the subscription stayed")
		}
		b := join(queues, "x")
		if at, refusal := b.Retry(); !at.IsZero() || refusal != nil || notified(b) {
			t.Errorf("the next queue knows %v, %v", at, refusal)
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
		if len(queues.queues) != 0 {
			t.Errorf("%d queues left", len(queues.queues))
		}
	}
}

func join(queues *Queues, key string) *Waiter {
	w, _ := queues.Join(Key{Channel: key}, nil)
	return w
}
