package test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The context of a hold speaks for its own lock only: goroutines that share it
// exclude each other at every other lock.
func TestHoldsContextIsOfOneLock(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		if w.kind.shared() {
			return // readers are let in together in any case
		}
		c, _ := w.client()
		outer := must(t)(c.NewMutex("outer").Lock(background))
		var inside, most atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 5 {
					h := must(t)(w.lock(c).Lock(outer.Context()))
					most.Store(max(most.Load(), inside.Add(1)))
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					unlock(t, h)
				}
			})
		}
		group.Wait()
		if most.Load() != 1 {
			t.Errorf("%d were inside together", most.Load())
		}
		unlock(t, outer)
	})
}

// A read hold's context does not make its goroutines one writer elsewhere, and
// permits taken under it are as many as there are.
func TestHoldsContextAndOtherKinds(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		reading := must(t)(c.NewRWMutex("a").RLocker().Lock(background))
		first := must(t)(c.NewRWMutex("b").Lock(reading.Context()))
		_, err := c.NewRWMutex("b").TryLock(reading.Context())
		wantError(t, err, holdfast.ErrLocked)
		s := c.NewPermitSemaphore("s")
		ok(t, s.SetPermits(background, 1))
		permit := must(t)(s.TryLock(reading.Context()))
		_, err = s.TryLock(permit.Context())
		wantError(t, err, holdfast.ErrLocked)
		for _, h := range []*holdfast.Hold{permit, first, reading} {
			unlock(t, h)
		}
		w.do("DEL", "s", "{s}:timeout", "holdfast_calls:{s}")
	})
}

// Nesting is recognised through a chain of calls and other locks in between.
func TestNestingThroughOtherLocks(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		outer := must(t)(w.lock(c).Lock(background))
		between := must(t)(c.NewMutex("y").Lock(outer.Context()))
		if between.Owner() == outer.Owner() {
			t.Error("two locks have one owner")
		}
		several := must(t)(holdfast.NewMultiLock(c.NewMutex("z"), c.NewFairMutex("zz")).Lock(between.Context()))
		type key struct{}
		deeper, cancel := context.WithCancel(context.WithValue(several.Context(), key{}, 1))
		defer cancel()
		inner := must(t)(w.lock(c).Lock(deeper))
		if inner.Owner() != outer.Owner() {
			t.Errorf("nested as %v in a hold of %v", inner.Owner(), outer.Owner())
		}
		w.wantCount("x", outer.Owner(), 2)
		again := must(t)(c.NewMutex("y").Lock(inner.Context()))
		if again.Owner() != between.Owner() {
			t.Errorf("nested as %v in a hold of %v", again.Owner(), between.Owner())
		}
		for _, h := range []*holdfast.Hold{again, inner, several, between, outer} {
			unlock(t, h)
		}
	})
}

// Under the context of a hold of several locks each of them is reentrant, and
// nothing else is; so it is with several servers.
func TestSeveralLocksNest(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		s := several(w, 3)
		c := s.clients[0]
		all := holdfast.NewMultiLock(c.NewMutex("a"), c.NewFairMutex("b"), c.NewRWMutex("c"))
		h := must(t)(all.Lock(background))
		for _, l := range []holdfast.Locker{all, c.NewMutex("a"), c.NewFairMutex("b"), c.NewRWMutex("c"), c.NewRWMutex("c").RLocker()} {
			unlock(t, must(t)(l.TryLock(h.Context())))
		}
		other := must(t)(c.NewMutex("d").TryLock(h.Context()))
		_, err := c.NewMutex("d").TryLock(h.Context())
		wantError(t, err, holdfast.ErrLocked)
		unlock(t, other)
		unlock(t, h)
		red := holdfast.NewRedLock(s.clients[0].NewMutex("r"), s.clients[1].NewMutex("r"), s.clients[2].NewMutex("r"))
		h = must(t)(red.Lock(background))
		if h.Owner() != (holdfast.Owner{}) {
			t.Errorf("three clients have one owner, %v", h.Owner())
		}
		for _, p := range h.Parts() {
			if p.Owner() == (holdfast.Owner{}) {
				t.Error("a part has no owner")
			}
		}
		unlock(t, must(t)(red.TryLock(h.Context())))
		unlock(t, h)
	})
}

// A reader that asks to write under its context is told so, as before.
func TestUpgradeIsRecognisedUnderAContext(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		m := c.NewRWMutex("x")
		reading := must(t)(m.RLocker().Lock(background))
		between := must(t)(c.NewMutex("y").Lock(reading.Context()))
		_, err := m.Lock(between.Context())
		wantError(t, err, holdfast.ErrReentrant)
		unlock(t, between)
		unlock(t, reading)
		writing := must(t)(m.Lock(background))
		read := must(t)(m.RLocker().Lock(writing.Context()))
		unlock(t, read)
		unlock(t, writing)
	})
}

// The innermost word counts: WithOwner's, or that of a hold acquired under it.
func TestWithOwnerByHand(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		x, y := c.NewMutex("x"), c.NewMutex("y")
		owner := c.NewOwner()
		ctx := holdfast.WithOwner(background, owner)
		a, b := must(t)(x.Lock(ctx)), must(t)(y.Lock(ctx))
		if a.Owner() != owner || b.Owner() != owner {
			t.Errorf("owners %v and %v, want %v", a.Owner(), b.Owner(), owner)
		}
		nested := must(t)(y.TryLock(a.Context())) // the same thread, by hand
		unlock(t, nested)
		_, err := x.TryLock(holdfast.WithOwner(a.Context(), c.NewOwner()))
		wantError(t, err, holdfast.ErrLocked)
		if got, ok := holdfast.OwnerFrom(a.Context(), x); got != owner || !ok {
			t.Errorf("OwnerFrom: %v, %v", got, ok)
		}
		if got, ok := holdfast.OwnerFrom(background, x); ok {
			t.Errorf("OwnerFrom without one: %v", got)
		}
		unlock(t, a)
		unlock(t, b)
	})
}

// An owner belongs to the client that made it. Two processes that count on one
// owner's field give each other's holds back: shown, before this was refused.
func TestOwnerOfAnotherClient(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, _ := w.client()
		ctx := holdfast.WithOwner(background, a.NewOwner())
		_, err := w.lock(b).Lock(ctx)
		wantError(t, err, holdfast.ErrInvalid)
		_, err = w.lock(b).TryLock(ctx)
		wantError(t, err, holdfast.ErrInvalid)
		_, err = holdfast.NewMultiLock(w.lock(a), b.NewMutex("y")).Lock(ctx)
		wantError(t, err, holdfast.ErrInvalid)
		unlock(t, must(t)(w.lock(a).Lock(ctx)))
	})
}

// Nothing remains of a hold whose lease has run out, whether or not it is ever
// unlocked, and Unlock says the same as before.
func TestForgottenHold(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		told := 0
		hooks := holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { told++ }})
		h := must(t)(w.lock(c).TryLock(background, holdfast.FixedLease(50*time.Millisecond), hooks))
		<-h.Context().Done()
		deadline := h.Deadline()
		time.Sleep(time.Minute)
		seen := count(d)
		wantError(t, h.Unlock(), holdfast.ErrLost)
		wantError(t, h.Unlock(), holdfast.ErrNotHeld)
		ok(t, c.Close())
		if n := seen.all(); n > 0 {
			t.Errorf("%d calls for a hold that was gone", n)
		}
		if told != 1 || h.Deadline() != (time.Time{}) || deadline.IsZero() {
			t.Errorf("told %d times, deadline %v, then %v", told, deadline, h.Deadline())
		}
	})
}

// An owner that nobody makes owns nothing: it could stand for another's side of a lock.
func TestOwnersMadeUp(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		for _, tail := range []string{":write", " ", ":1"} {
			var owner holdfast.Owner
			ok(t, owner.UnmarshalText([]byte(c.NewOwner().String()+tail)))
			_, err := w.lock(c).TryLock(holdfast.WithOwner(background, owner))
			wantError(t, err, holdfast.ErrInvalid)
			_, err = w.lock(c).Adopt(background, owner)
			wantError(t, err, holdfast.ErrInvalid)
		}
	})
}
