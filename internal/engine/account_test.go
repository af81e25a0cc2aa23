package engine

import (
	"runtime"
	"testing"
)

func newLock() *Lock {
	e := &Engine{known: map[accountKey]*account{}}
	return &Lock{Traits: &Traits{Class: "mutex", HandsOver: true}, Engine: e, Name: "x"}
}

// An account whose owner nobody was told is no one's but its call's. Others are found by their owners, and made if need be.
func TestFind(t *testing.T) {
	l := newLock()
	other, own := l.Engine.account(l, claim{owner: "c:1", fresh: true}), l.Engine.account(l, claim{owner: "c:3", fresh: true})
	if got := l.Engine.account(l, claim{owner: "c:3"}); got != nil {
		t.Error("an owner that nobody was told is found")
	}
	own.undisclosed = false
	if got := l.Engine.account(l, claim{owner: "c:3"}); got != own {
		t.Errorf("%v is found", got)
	}
	if got := l.Engine.account(l, claim{owner: "c:5"}); got == nil || got == own || got == other {
		t.Errorf("a new owner has %v", got)
	}
}

// An account goes when nobody needs it, and stays if somebody has found it in that moment.
func TestFoundWhileItGoes(t *testing.T) {
	l := newLock()
	e := l.Engine
	a := e.account(l, claim{owner: "c:2"})
	e.mu.Lock()
	gone := make(chan struct{})
	go func() {
		a.unref()
		close(gone)
	}()
	for a.refs.Load() > 0 {
		runtime.Gosched()
	}
	a.ref() // as who finds it under mu does
	e.mu.Unlock()
	if <-gone; e.account(l, claim{owner: "c:2"}) != a {
		t.Error("another account has been made")
	}
	a.unref()
	a.unref()
	if len(e.known) > 0 || e.accounts.First() != nil {
		t.Error("it is kept")
	}
}

// The watchdog may find a run lost when the next one has begun.
func TestNewsOfAnEarlierRun(t *testing.T) {
	l := newLock()
	s := l.Engine.account(l, claim{owner: "c:2"}).side(l)
	s.entry = &entry{Value: s}
	s.lose(&entry{Value: s}, true)
	if s.Lost() != nil {
		t.Error("it has ended the next one")
	}
}
