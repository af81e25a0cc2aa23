package waitqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// One who has been let in notes nothing any more: the queue may be another lock's by then.
func TestStaleRefusal(t *testing.T) {
	qs := newQueues(func(string, *queue) func() { return func() {} })
	w := enter(qs, Key{Name: "a"}, 1)
	if !tryFirst(w) {
		t.Fatal("the first does not ask")
	}
	w.Done()
	qs.LetIn(Key{Name: "a"}, func(*int) bool { return true })
	w.RetryAt(mono.Now().Add(3*time.Second), errors.New("a is held"))
	w.Leave()
	v := enter(qs, Key{Name: "b"}, 0)
	lore := v.Lore()
	if !tryFirst(v) {
		t.Errorf("b is free, and its first waiter does not ask, for %v, because: %v", mono.Until(lore.RetryAt), lore.Refusal)
	}
}

// And it subscribes to nothing.
func TestStaleListen(t *testing.T) {
	var on []string
	qs := newQueues(func(c string, _ *queue) func() { on = append(on, c); return func() { on = nil } })
	w := enter(qs, Key{Name: "a", Channel: "a"}, 1)
	tryFirst(w)
	w.Done()
	w.RetryAt(mono.Now().Add(3*time.Second), errors.New("a is held"))
	qs.LetIn(Key{Name: "a", Channel: "a"}, func(*int) bool { return true })
	w.Listen(true)
	w.Leave()
	if len(on) > 0 {
		t.Errorf("nobody waits, and it listens to %v", on)
	}
	v := enter(qs, Key{Name: "b", Channel: "b"}, 0)
	v.Listen(true)
	if len(on) != 1 || on[0] != "b" {
		t.Errorf("one waits for b, and it listens to %v", on)
	}
}
