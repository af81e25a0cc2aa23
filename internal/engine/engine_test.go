package engine

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// Traits of locks whose holds pass on, are shared, or neither.
var (
	handing = Traits{Kind: &protocol.Kind{Name: "mutex", Namespace: "mutex", AllowsHandoff: true}}
	plain   = Traits{Kind: &protocol.Kind{Name: "plain", Namespace: "mutex"}}
	reading = Traits{Kind: &protocol.Kind{Name: "read", Namespace: "rw", Mode: protocol.ModeRead, Shared: true, SharesHolds: true}}
	writing = Traits{Kind: &protocol.Kind{Name: "write", Namespace: "rw", Mode: protocol.ModeWrite}}
)

func lockOf(e *Engine, traits Traits, name string) *Lock {
	l := &Lock{Traits: traits, Engine: e, Name: name, Requests: protocol.NewMutex(name)}
	if traits.Kind == reading.Kind {
		l.Requests = protocol.NewRead(name)
	}
	return l
}

func acquire(ctx context.Context, t *testing.T, l *Lock) *Hold {
	t.Helper()
	h := new(Hold)
	if _, err := l.Acquire(ctx, h, &Args{Lease: l.Engine.Lease}); err != nil {
		t.Fatal(err)
	}
	return h
}

func unlock(t *testing.T, holds ...*Hold) {
	t.Helper()
	for _, h := range holds {
		if how, err := h.Unlock(); how != Released || err != nil {
			t.Errorf("Unlock: %v, %v", how, err)
		}
	}
}

// nothingIsLeft fails unless no account is left, and nothing is under way. After it nothing more can be acquired.
func nothingIsLeft(t *testing.T, e *Engine) {
	t.Helper()
	e.accounts.mu.Lock()
	if all, known := len(e.accounts.fresh), len(e.accounts.known); all > 0 || known > 0 {
		t.Errorf("%d accounts are left, and %d with known owners", all, known)
	}
	e.accounts.mu.Unlock()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := e.Tasks.Wait(ended); err != nil {
		t.Error("something is under way")
	}
}

// The watchdog finds an entry lost under its lock, and says so after it. If an
// Unlock and the next Lock of that owner come in between, the news is not of the
// next hold.
func TestLateNewsOfALossDoesNotHitTheNextHold(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		l := lockOf(e, handing, "x")
		ctx := WithOwner(t.Context(), e.NewOwner(), nil)
		h1 := acquire(ctx, t, l)
		s := h1.side
		s.account.ref() // a call of this owner under way keeps its account
		defer s.account.unref()
		// The watchdog: answered() or collect() has just done finish(e, lost).
		entry := s.entry
		e.watchdog.Remove(entry)
		if _, err := h1.Unlock(); !errors.Is(err, lockerr.Lost) {
			t.Errorf("Unlock: %v", err)
		}
		h2 := acquire(ctx, t, l)
		if h2.side != s {
			t.Fatal("another side")
		}
		lost(entry, watchdog.NotHeld) // the watchdog: config.Lost(e.Value)
		if h2.Context().Err() != nil {
			t.Errorf("the next hold: %v", context.Cause(h2.Context()))
		}
		unlock(t, h2)
	})
}

// Redis says that a lock was taken to whoever gives it back, which may be another call than the Unlock that waits for
// that. The owner's next hold may begin before that one looks.
func TestALossIsKeptForTheUnlockThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		h := acquire(t.Context(), t, lockOf(e, handing, "x"))
		s := h.side
		was, err := h.drop()
		if err != nil {
			t.Fatal(err)
		}
		defer s.account.unref()
		next := func(which string) {
			t.Helper()
			s.account.mu.Lock()
			defer s.account.mu.Unlock()
			if _, ok, err := s.Next(); !ok || err != nil {
				t.Errorf("%s: %v, %v", which, ok, err)
			}
			s.Stood(1)
		}
		s.vanished()
		next("the next hold")
		if has, err := s.awaitExcess(t.Context(), was.run); has || err != nil {
			t.Errorf("the Unlock waits for what the next hold leaves: %v, %v", has, err)
		}
		s.vanished() // the next hold is taken, too
		next("the hold after it")
		if err := s.lostBefore(was); !errors.Is(err, lockerr.Lost) {
			t.Errorf("the Unlock that waits: %v", err)
		}
	})
}

// A hold with a fixed lease that is dropped, as throttles do, leaves nothing here: no
// account, no goroutine, no timer.
func TestNothingRemainsOfADroppedHold(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		for i := range 1000 {
			l := lockOf(e, handing, strconv.Itoa(i))
			if _, err := l.Acquire(t.Context(), new(Hold), &Args{Lease: 5 * time.Millisecond, Fixed: true, OneTry: true}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		nothingIsLeft(t, e)
	})
}

// What is unlocked leaves nothing here, in whichever order, whoever its owner is.
func TestNothingRemainsAfterUnlock(t *testing.T) {
	for name, pair := range map[string]func(t *testing.T, e *Engine, name string){
		"alone": func(t *testing.T, e *Engine, name string) {
			unlock(t, acquire(t.Context(), t, lockOf(e, handing, name)))
		},
		"nested": func(t *testing.T, e *Engine, name string) {
			l := lockOf(e, handing, name)
			outer := acquire(t.Context(), t, l)
			inner := acquire(outer.Context(), t, l)
			unlock(t, inner, outer)
		},
		"the outer one first": func(t *testing.T, e *Engine, name string) {
			l := lockOf(e, handing, name)
			outer := acquire(t.Context(), t, l)
			inner := acquire(outer.Context(), t, l)
			unlock(t, outer, inner)
		},
		"the owner was asked for": func(t *testing.T, e *Engine, name string) {
			h := acquire(t.Context(), t, lockOf(e, handing, name))
			if h.Owner() == "" {
				t.Error("no owner")
			}
			unlock(t, h)
		},
		"one owner at two locks": func(t *testing.T, e *Engine, name string) {
			ctx := WithOwner(t.Context(), e.NewOwner(), nil)
			a, b := lockOf(e, handing, name), lockOf(e, plain, name+"b")
			first, second, third := acquire(ctx, t, a), acquire(ctx, t, b), acquire(ctx, t, a)
			unlock(t, first, second, third)
		},
		"both sides": func(t *testing.T, e *Engine, name string) {
			write := acquire(t.Context(), t, lockOf(e, writing, name))
			read := acquire(write.Context(), t, lockOf(e, reading, name))
			unlock(t, write, read)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, e *Engine) {
				for i := range 1000 {
					pair(t, e, strconv.Itoa(i%3))
				}
				synctest.Wait()
				nothingIsLeft(t, e)
			})
		})
	}
}

// A hold that may pass on is not another call's to nest in, unless its owner was asked for: it does not pass on then.
func TestAFreshOwnerIsUsedByHandOnlyIfItIsKnown(t *testing.T) {
	for name, row := range map[string]struct {
		traits  Traits
		ask     bool
		foreign bool // the owner is another call's
	}{
		"passes on":             {handing, false, true},
		"passes on, known":      {handing, true, false},
		"shared":                {reading, false, true},
		"shared, known":         {reading, true, false},
		"does not pass on":      {plain, false, false},
		"does not, known":       {plain, true, false},
		"the side for writing":  {writing, false, false},
		"writing, and is known": {writing, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, e *Engine) {
				l := lockOf(e, row.traits, "x")
				other := acquire(t.Context(), t, lockOf(e, plain, "x")) // another owner's, which is not found
				outer, inner := acquire(t.Context(), t, l), new(Hold)
				if row.ask {
					outer.Owner()
				}
				byHand := WithOwner(t.Context(), outer.side.account.owner, nil) // as it stands in Redis
				switch _, err := l.Acquire(byHand, inner, &Args{Lease: e.Lease}); {
				case row.foreign && !errors.Is(err, lockerr.Invalid):
					t.Errorf("another call's owner: %v", err)
				case !row.foreign && err != nil:
					t.Error(err)
				case !row.foreign && inner.side != outer.side:
					t.Error("the owner has two accounts")
				case !row.foreign:
					unlock(t, inner)
				}
				unlock(t, outer, other)
				nothingIsLeft(t, e)
			})
		})
	}
}

// An account goes with its last user, but not if somebody finds it in that instant: what one of them knows of the owner,
// the other one would not.
func TestAnAccountThatIsFoundIsNotDropped(t *testing.T) {
	e := newEngine(t)
	a := e.account(lockOf(e, plain, "x"), claim{owner: e.NewOwner()})
	here := func() bool { return e.accounts.known[a.accountKey] == a }
	gone := make(chan struct{})
	e.accounts.mu.Lock()
	go func() { defer close(gone); a.unref() }()
	for a.refs.Load() > 0 {
		runtime.Gosched()
	}
	if !here() { // as account does
		t.Fatal("it went without mu")
	}
	a.ref()
	e.accounts.mu.Unlock()
	<-gone
	e.accounts.mu.Lock()
	if !here() {
		t.Error("it has gone, though somebody has found it")
	}
	e.accounts.mu.Unlock()
	a.unref()
	nothingIsLeft(t, e)
}

// Users of an owner who come and go at the same time find one account, as long as any of them has it.
func TestUsersOfAnOwnerFindOneAccount(t *testing.T) {
	e := newEngine(t)
	l := lockOf(e, plain, "x")
	for name, owner := range map[string]func() string{"by hand": e.NewOwner, "fresh": e.freshOwner} {
		for range 200 {
			first := claim{owner: owner(), fresh: name == "fresh"}
			made := e.account(l, first)
			var users sync.WaitGroup
			for range 3 {
				users.Go(func() {
					for range 100 {
						a := e.account(l, claim{owner: first.owner})
						e.accounts.mu.Lock()
						if e.accounts.known[a.accountKey] != a {
							t.Errorf("%s: the account was dropped while it was used", name)
						}
						e.accounts.mu.Unlock()
						a.unref()
					}
				})
			}
			made.unref()
			users.Wait()
		}
	}
	nothingIsLeft(t, e)
}
