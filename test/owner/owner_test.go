package owner

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The context of a hold speaks for its own lock only: goroutines that share it
// exclude each other at every other lock.
func TestHoldsContextIsOfOneLock(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Shared() {
			return // readers are let in together in any case
		}
		c, _ := w.Client()
		outer := kit.Must(t)(c.NewMutex("outer").Lock(background))
		var inside, most atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 5 {
					h := kit.Must(t)(w.Lock(c).Lock(outer.Context()))
					most.Store(max(most.Load(), inside.Add(1)))
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					kit.Unlock(t, h)
				}
			})
		}
		group.Wait()
		if most.Load() != 1 {
			t.Errorf("%d were inside together", most.Load())
		}
		kit.Unlock(t, outer)
	})
}

// A read hold's context does not make its goroutines one writer elsewhere, and
// permits taken under it are as many as there are.
func TestHoldsContextAndOtherKinds(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		reading := kit.Must(t)(c.NewRWMutex("a").RLocker().Lock(background))
		first := kit.Must(t)(c.NewRWMutex("b").Lock(reading.Context()))
		kit.Fails(t, holdfast.ErrLocked)(c.NewRWMutex("b").TryLock(reading.Context()))
		s := c.NewPermitSemaphore("s")
		kit.OK(t, s.SetPermits(background, 1))
		permit := kit.Must(t)(s.TryLock(reading.Context()))
		kit.Fails(t, holdfast.ErrLocked)(s.TryLock(permit.Context()))
		for _, h := range []*holdfast.Hold{permit, first, reading} {
			kit.Unlock(t, h)
		}
		w.Do("DEL", "s", "{s}:timeout", "holdfast_calls:{s}")
	})
}

// Nesting is recognised through a chain of calls and other locks in between.
func TestNestingThroughOtherLocks(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		between := kit.Must(t)(c.NewMutex("y").Lock(outer.Context()))
		if between.Owner() == outer.Owner() {
			t.Error("two locks have one owner")
		}
		several := kit.Must(t)(holdfast.NewMultiLock(c.NewMutex("z"), c.NewFairMutex("zz")).Lock(between.Context()))
		type key struct{}
		deeper, cancel := context.WithCancel(context.WithValue(several.Context(), key{}, 1))
		defer cancel()
		inner := kit.Must(t)(w.Lock(c).Lock(deeper))
		if inner.Owner() != outer.Owner() {
			t.Errorf("nested as %v in a hold of %v", inner.Owner(), outer.Owner())
		}
		w.WantCount("x", outer.Owner(), 2)
		again := kit.Must(t)(c.NewMutex("y").Lock(inner.Context()))
		if again.Owner() != between.Owner() {
			t.Errorf("nested as %v in a hold of %v", again.Owner(), between.Owner())
		}
		for _, h := range []*holdfast.Hold{again, inner, several, between, outer} {
			kit.Unlock(t, h)
		}
	})
}

// Under the context of a hold of several locks each of them is reentrant, and
// nothing else is; so it is with several servers.
func TestSeveralLocksNest(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		c := s.Clients[0]
		all := holdfast.NewMultiLock(c.NewMutex("a"), c.NewFairMutex("b"), c.NewRWMutex("c"))
		h := kit.Must(t)(all.Lock(background))
		for _, l := range []holdfast.Locker{all, c.NewMutex("a"), c.NewFairMutex("b"), c.NewRWMutex("c"), c.NewRWMutex("c").RLocker()} {
			kit.Unlock(t, kit.Must(t)(l.TryLock(h.Context())))
		}
		other := kit.Must(t)(c.NewMutex("d").TryLock(h.Context()))
		kit.Fails(t, holdfast.ErrLocked)(c.NewMutex("d").TryLock(h.Context()))
		kit.Unlock(t, other)
		kit.Unlock(t, h)
		red := holdfast.NewRedLock(s.Clients[0].NewMutex("r"), s.Clients[1].NewMutex("r"), s.Clients[2].NewMutex("r"))
		h = kit.Must(t)(red.Lock(background))
		if h.Owner() != (holdfast.Owner{}) {
			t.Errorf("three clients have one owner, %v", h.Owner())
		}
		for _, p := range h.Parts() {
			if p.Owner() == (holdfast.Owner{}) {
				t.Error("a part has no owner")
			}
		}
		kit.Unlock(t, kit.Must(t)(red.TryLock(h.Context())))
		kit.Unlock(t, h)
	})
}

// A reader that asks to write under its context is told so, as before.
func TestUpgradeIsRecognisedUnderAContext(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		reading := kit.Must(t)(m.RLocker().Lock(background))
		between := kit.Must(t)(c.NewMutex("y").Lock(reading.Context()))
		kit.Fails(t, holdfast.ErrReentrant)(m.Lock(between.Context()))
		kit.Unlock(t, between)
		kit.Unlock(t, reading)
		writing := kit.Must(t)(m.Lock(background))
		read := kit.Must(t)(m.RLocker().Lock(writing.Context()))
		kit.Unlock(t, read)
		kit.Unlock(t, writing)
	})
}

// The innermost word counts: WithOwner's, or that of a hold acquired under it.
func TestWithOwnerByHand(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x, y := c.NewMutex("x"), c.NewMutex("y")
		owner := c.NewOwner()
		ctx := holdfast.WithOwner(background, owner)
		a, b := kit.Must(t)(x.Lock(ctx)), kit.Must(t)(y.Lock(ctx))
		if a.Owner() != owner || b.Owner() != owner {
			t.Errorf("owners %v and %v, want %v", a.Owner(), b.Owner(), owner)
		}
		nested := kit.Must(t)(y.TryLock(a.Context())) // the same thread, by hand
		kit.Unlock(t, nested)
		kit.Fails(t, holdfast.ErrLocked)(x.TryLock(holdfast.WithOwner(a.Context(), c.NewOwner())))
		if got, ok := holdfast.OwnerFrom(a.Context(), x); got != owner || !ok {
			t.Errorf("OwnerFrom: %v, %v", got, ok)
		}
		if got, ok := holdfast.OwnerFrom(background, x); ok {
			t.Errorf("OwnerFrom without one: %v", got)
		}
		kit.Unlock(t, a)
		kit.Unlock(t, b)
	})
}

// An owner belongs to the client that made it. Two processes that count on one
// owner's field give each other's holds back: shown, before this was refused.
func TestOwnerOfAnotherClient(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		ctx := holdfast.WithOwner(background, a.NewOwner())
		kit.Fails(t, holdfast.ErrInvalid)(w.Lock(b).Lock(ctx))
		kit.Fails(t, holdfast.ErrInvalid)(w.Lock(b).TryLock(ctx))
		kit.Fails(t, holdfast.ErrInvalid)(holdfast.NewMultiLock(w.Lock(a), b.NewMutex("y")).Lock(ctx))
		kit.Unlock(t, kit.Must(t)(w.Lock(a).Lock(ctx)))
	})
}

// Nothing remains of a hold whose lease has run out, whether or not it is ever
// unlocked, and Unlock says the same as before.
func TestForgottenHold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		told := 0
		hooks := holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { told++ }})
		h := kit.Must(t)(w.Lock(c).TryLock(background, holdfast.FixedLease(50*time.Millisecond), hooks))
		<-h.Context().Done()
		deadline := h.Deadline()
		time.Sleep(time.Minute)
		seen := kit.Count(d)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
		kit.OK(t, c.Close())
		if n := seen.All(); n > 0 {
			t.Errorf("%d calls for a hold that was gone", n)
		}
		if told != 1 || h.Deadline() != (time.Time{}) || deadline.IsZero() {
			t.Errorf("told %d times, deadline %v, then %v", told, deadline, h.Deadline())
		}
	})
}

// An owner that nobody makes owns nothing: it could stand for another's side of a lock.
func TestOwnersMadeUp(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		for _, tail := range []string{":write", " ", ":1"} {
			var owner holdfast.Owner
			kit.OK(t, owner.UnmarshalText([]byte(c.NewOwner().String()+tail)))
			kit.Fails(t, holdfast.ErrInvalid)(w.Lock(c).TryLock(holdfast.WithOwner(background, owner)))
			kit.Fails(t, holdfast.ErrInvalid)(w.Lock(c).Adopt(background, owner))
		}
	})
}
