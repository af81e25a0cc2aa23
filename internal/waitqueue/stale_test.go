package waitqueue

import (
	"errors"
	"testing"
	"time"
)

// One who has been let in notes nothing any more: the queue may be another lock's by then.
func TestStaleRefusal(t *testing.T) {
	qs := New(func(string, *Queue) func() { return func() {} })
	w, _ := qs.Join(Key{Name: "a"}, 1)
	if !w.TryFirst() {
		t.Fatal("the first does not ask")
	}
	w.Done()
	qs.LetIn(Key{Name: "a"}, func(any) bool { return true })
	w.RetryAt(time.Now().Add(3*time.Second), errors.New("a is held"))
	w.Leave()
	v, _ := qs.Join(Key{Name: "b"}, nil)
	at, err := v.Retry()
	if !v.TryFirst() {
		t.Errorf("b is free, and its first waiter does not ask, for %v, because: %v", time.Until(at), err)
	}
}

// And it subscribes to nothing.
func TestStaleListen(t *testing.T) {
	var on []string
	qs := New(func(c string, _ *Queue) func() { on = append(on, c); return func() { on = nil } })
	w, _ := qs.Join(Key{Name: "a", Channel: "a"}, 1)
	w.TryFirst()
	w.Done()
	w.RetryAt(time.Now().Add(3*time.Second), errors.New("a is held"))
	qs.LetIn(Key{Name: "a", Channel: "a"}, func(any) bool { return true })
	w.Listen()
	w.Leave()
	if len(on) > 0 {
		t.Errorf("nobody waits, and it listens to %v", on)
	}
	v, _ := qs.Join(Key{Name: "b", Channel: "b"}, nil)
	v.Listen()
	if len(on) != 1 || on[0] != "b" {
		t.Errorf("one waits for b, and it listens to %v", on)
	}
}
