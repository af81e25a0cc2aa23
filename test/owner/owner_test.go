package owner

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The context of a hold speaks for its own locks only: calls that share it exclude each other at every other lock.
func TestHoldsContextIsOfOneLock(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		for _, outer := range []holdfast.Locker{
			s.c.NewMutex("outer"), s.c.NewRWMutex("outer").RLocker(), holdfast.NewMultiLock(s.c.NewMutex("outer"), s.c.NewFairMutex("outer2")),
		} {
			h := s.Must(outer.Lock(background))
			inner := s.Must(s.x.TryLock(h.Context()))
			kit.Fails(s.T, holdfast.ErrLocked)(s.Rival(s.c).TryLock(h.Context()))
			s.Unlock(inner, h)
		}
	})
}

// Nesting is recognised through a chain of calls and other locks in between, and so is a reader that asks to write. Under the
// context of a hold of several locks, each of them is reentrant.
func TestNestingThroughOtherLocks(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		outer := s.lock(background)
		y, z := s.c.NewMutex("y"), s.c.NewRWMutex("z")
		between := s.Must(y.Lock(outer.Context()))
		several := s.Must(holdfast.NewMultiLock(z, s.c.NewFairMutex("zz")).Lock(between.Context()))
		deeper, cancel := context.WithCancel(context.WithValue(several.Context(), tagKey{}, "deeper"))
		defer cancel()
		inner := s.lock(deeper)
		s.WantCount("x", outer.Owner(), 2)
		again := s.Must(y.Lock(inner.Context()))
		if inner.Owner() != outer.Owner() || again.Owner() != between.Owner() || outer.Owner() == between.Owner() {
			s.Errorf("nested as %v in a hold of %v, and as %v in one of %v", inner.Owner(), outer.Owner(), again.Owner(), between.Owner())
		}
		for _, part := range []holdfast.Locker{z, z.RLocker(), s.c.NewFairMutex("zz")} {
			s.Unlock(s.Must(part.TryLock(deeper)))
		}
		if s.Kind.Shared {
			kit.Fails(s.T, holdfast.ErrReentrant)(s.Rival(s.c).Lock(again.Context()))
		}
		s.Unlock(again, inner, several, between, outer)
	})
}

// The innermost word counts: WithOwner's, or that of a hold acquired under it.
func TestWithOwnerByHand(t *testing.T) {
	fake(t, func(s *stage) {
		owner, _ := holdfast.OwnerFrom(s.own, s.x)
		y := s.c.NewMutex("y")
		a, b := s.lock(s.own), s.Must(y.Lock(s.own))
		if got, ok := holdfast.OwnerFrom(a.Context(), s.x); got != owner || !ok || a.Owner() != owner || b.Owner() != owner {
			s.Errorf("owners %v and %v, and OwnerFrom says %v, %v; want %v", a.Owner(), b.Owner(), got, ok, owner)
		}
		s.Unlock(s.Must(y.TryLock(a.Context()))) // the same thread, by hand
		kit.Fails(s.T, holdfast.ErrLocked)(s.x.TryLock(holdfast.WithOwner(a.Context(), s.c.NewOwner())))
		if got, ok := holdfast.OwnerFrom(background, s.x); ok {
			s.Errorf("OwnerFrom without one: %v", got)
		}
		s.Unlock(a, b)
	})
}

// An owner belongs to the client that has made it: two processes that count on one owner's field give each other's holds back. One that
// nobody makes could stand for another's side of a lock, and one that is not made yet is what an acquire may get for itself.
func TestOwnersThatMayNotLock(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		refused := func(owner holdfast.Owner) {
			ctx := holdfast.WithOwner(background, owner)
			kit.Fails(s.T, holdfast.ErrInvalid)(s.x.Lock(ctx, holdfast.Wait(time.Second)))
			kit.Fails(s.T, holdfast.ErrInvalid)(s.x.TryLock(ctx))
		}
		parse := func(text string) (owner holdfast.Owner) {
			kit.OK(s.T, owner.UnmarshalText([]byte(text)))
			return owner
		}
		h := s.lock(background)
		client, number, _ := strings.Cut(h.Owner().String(), ":")
		last, err := strconv.Atoi(number)
		kit.OK(s.T, err)
		s.Unlock(h)
		for _, n := range []int{-1, 0, last + 2, last + 4, last + 5} { // those that NewOwner returns are even; it was called once
			refused(parse(fmt.Sprint(client, ":", n)))
		}
		for _, tail := range []string{":write", " ", ":1"} {
			owner := parse(s.c.NewOwner().String() + tail)
			refused(owner)
			kit.Fails(s.T, holdfast.ErrInvalid)(s.x.Adopt(background, owner))
		}
		refused(s.other.NewOwner())
		kit.Fails(s.T, holdfast.ErrInvalid)(holdfast.NewMultiLock(s.x, s.other.NewMutex("y")).Lock(s.own))
		s.Unlock(s.Must(s.x.TryLock(holdfast.WithOwner(background, h.Owner())))) // whose hold has ended
	})
}

// Nothing remains of a hold whose lease has run out, whether or not it is ever unlocked. Unlock, and a Lock under its context, say
// the same as before.
func TestForgottenHold(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		told := 0
		hooks := holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { told++ }})
		h := s.Must(s.x.TryLock(background, holdfast.FixedLease(50*time.Millisecond), hooks))
		under := context.WithoutCancel(h.Context())
		<-h.Context().Done()
		deadline := h.Deadline()
		time.Sleep(time.Minute)
		if s.Kind.Nests() {
			kit.Fails(s.T, holdfast.ErrLost)(s.x.TryLock(under))
		}
		seen := kit.Count(s.d)
		s.Lost(h)
		kit.WantError(s.T, h.Unlock(), holdfast.ErrNotHeld)
		kit.OK(s.T, s.c.Close())
		if n := seen.All(); n > 0 {
			s.Errorf("%d calls for a hold that was gone", n)
		}
		if told != 1 || !h.Deadline().IsZero() || deadline.IsZero() {
			s.Errorf("told %d times, deadline %v, then %v", told, deadline, h.Deadline())
		}
	})
}

// A lost hold is unlocked, and its owner locks again, alone or with another lock: what the acquire gives back first is not hit by a
// delayed send of the Unlock.
func TestLateReleaseAfterLoss(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		for i := range 20 {
			s := newStage(t, w, []holdfast.ClientOption{holdfast.WithMargin(10 * time.Second)})
			var again holdfast.Locker = s.x
			if i%2 == 0 {
				again = holdfast.NewMultiLock(s.x, s.Mutex(s.c, "y"))
			}
			h := s.lock(s.own)
			kit.Away(s.d)
			<-h.Context().Done()
			time.Sleep(2500 * time.Millisecond)
			kit.Next(s.d, "release", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
			s.Lost(h)
			next := s.Must(again.Lock(s.own))
			time.Sleep(time.Second)
			if beside, err := s.theirs.TryLock(background); err == nil {
				if next.Context().Err() == nil {
					s.Errorf("two inside, in %v", again.Name())
				}
				s.Unlock(beside)
			}
			_ = next.Unlock() // it may be lost
		}
	})
}

// duringRenewal returns a hold, one of whose renewals has been carried out and not answered yet.
func (s *stage) duringRenewal() *holdfast.Hold {
	s.Helper()
	var renewals atomic.Int64
	s.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
		if call.Script.Name() == "renew" && renewals.Add(1) == 2 { // the first is sent when the hold begins to listen
			f.DelayReply = 500 * time.Millisecond
		}
		return f
	})
	h := s.lock(background)
	time.Sleep(11 * time.Second)
	if renewals.Load() != 2 {
		s.Fatal(renewals.Load())
	}
	return h
}

// Extend while a renewal is under way: what was promised is remembered.
func TestExtendDuringRenewal(t *testing.T) {
	fake(t, func(s *stage) {
		h := s.duringRenewal()
		kit.OK(s.T, h.Extend(background, time.Hour))
		time.Sleep(time.Second)
		kit.Away(s.d)
		if h.Unlock() == nil {
			s.Fatal("no error")
		}
		time.Sleep(2 * time.Minute) // an outage, shorter than the lease
		s.d.SetFaults(nil)
		time.Sleep(time.Minute)
		s.WantCount("x", h.Owner(), 0) // given up
	})
}

// A nested hold of a long lease, acquired while a renewal is under way: the lost hold
// is kept until its key has gone, so that Unlock removes it.
func TestForgottenTooEarly(t *testing.T) {
	fake(t, func(s *stage) {
		h := s.duringRenewal()
		nested := s.lock(holdfast.WithOwner(background, h.Owner()), holdfast.FixedLease(time.Hour))
		time.Sleep(time.Second)
		s.Unlock(h)
		<-nested.Context().Done()
		time.Sleep(time.Second)
		s.Lost(nested)
		time.Sleep(time.Second)
		s.WantCount("x", nested.Owner(), 0)
	}, holdfast.WithMargin(10*time.Second))
}

// The calls of an owner overlap. A nested Lock whose outer hold is unlocked while it is under way becomes the only hold: it has the
// token of the run of holds that goes on. The next run has one of its own.
func TestTokensOfOneOwner(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		if !s.Kind.Fenced {
			return
		}
		h := s.lock(s.own)
		kit.Next(s.d, "acquire", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		nested := s.begin(s.own)
		s.Unlock(h)
		n := s.got(nested)
		s.WantCount("x", n.Owner(), 1)
		kit.Next(s.d, "release", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		unlocked := kit.Aside(n.Unlock)
		next := s.lock(s.own)
		kit.OK(s.T, <-unlocked)
		if n.Token() < h.Token() || next.Token() <= n.Token() {
			s.Errorf("token %d, nested %d, the next run's %d", h.Token(), n.Token(), next.Token())
		}
		s.Unlock(next)
	})
}
