package handover

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// meanwhile is a context that does something once, when it is first asked whether it has ended:
// after a Lock under it has found whose it is.
type meanwhile struct {
	context.Context

	f func()
}

func (m *meanwhile) Err() error {
	if f := m.f; f != nil {
		m.f = nil
		f()
	}
	return m.Context.Err()
}

// A nested Lock that has found its hold, and comes after that was handed over, is not nested in the next one.
func TestHandedOverUnderNestedLock(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next := s.waits()
		ctx := &meanwhile{context.WithoutCancel(a.Context()), func() { s.unlock(a) }}
		kit.Fails(s.T, holdfast.ErrNotHeld)(s.x.TryLock(ctx))
		b := <-next
		s.WantCount("x", b.Owner(), 1)
		s.unlock(b)
	})
}

// While a nested Lock is under way nothing is handed over: it would be nested in the next one's hold.
func TestNotHandedOverDuringNestedLock(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		next := s.waits()
		s.script("acquire", memdriver.Fault{DelayRequest: 500 * time.Microsecond})
		nested := kit.Waiting(s.T, s.x, context.WithoutCancel(a.Context()))
		unlocked := kit.Aside(a.Unlock)
		kit.Nothing(s.T, next, "it was handed over")
		s.d.SetFaults(nil)
		s.unlock(<-nested)
		s.unlock(<-next)
		kit.OK(s.T, <-unlocked)
	})
}

// Several locks that are to be nested in a hold, and wait for another one while it is unlocked: it
// is released, or they would be nested in the next one's.
func TestSeveralNestedInOneThatIsUnlocked(t *testing.T) {
	fake(t, func(s *stage) {
		blocker := s.must(s.elsewhere.NewMutex("a").Lock(background))
		a := s.lock()
		both := kit.Waiting(s.T, holdfast.NewMultiLock(s.c.NewMutex("a"), s.x), context.WithoutCancel(a.Context()))
		next := s.waits()
		s.unlock(a)
		b := <-next
		s.unlock(blocker)
		time.Sleep(5 * time.Second)
		kit.Nothing(s.T, both, "two are inside")
		s.unlock(b)
		s.unlock(<-both)
	})
}

// While a waiter's own try is under way nothing is handed over to it: the try could be granted, too.
func TestNotHandedOverDuringTry(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.must(s.x.TryLock(background))
		s.script("acquire", memdriver.Fault{DelayRequest: 500 * time.Microsecond})
		next := s.waits()
		calls := kit.Count(s.d)
		s.unlock(a)
		if calls.Of("release") == 0 {
			s.Error("it was handed over to one whose try is under way")
		}
		s.unlock(<-next)
		time.Sleep(time.Second)
		s.unlock(s.must(s.x.TryLock(background)))
	})
}

// A hold is not handed over if a try for it was not answered: that may still take effect.
func TestNotHandedOverAfterLostReply(t *testing.T) {
	fake(t, func(s *stage) {
		kit.Once(s.d, "acquire", memdriver.Fault{LoseRequest: true})
		first, next := s.waits(), s.waits()
		a := <-first // by the second try
		calls := kit.Count(s.d)
		s.unlock(a)
		if calls.Of("release") == 0 {
			s.Error("it was handed over")
		}
		s.unlock(<-next)
	})
}

// One who waits, and has not heard yet that the client shuts down, is not handed the lock.
func TestNotHandedOverDuringShutdown(t *testing.T) {
	fake(t, func(s *stage) {
		a := s.lock()
		goOn := make(chan struct{})
		next := kit.Aside(func() error {
			_, err := s.x.Lock(background, holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { <-goOn }}))
			return err
		})
		down := kit.BeginShutdown(s.c)
		synctest.Wait()
		s.unlock(a)
		close(goOn)
		s.ends(next, holdfast.ErrClosed)
		kit.OK(s.T, <-down)
	})
}

// While the client shuts down nobody joins, and nothing is handed over.
func TestShutdownEndsSharing(t *testing.T) {
	fake(t, func(s *stage) {
		y := s.c.NewMutex("y")
		r, a := s.read(), s.must(y.Lock(background))
		next := kit.Waiting(s.T, y, background)
		down := kit.BeginShutdown(s.c)
		synctest.Wait()
		kit.Fails(s.T, holdfast.ErrClosed)(s.rw.TryRLock(background))
		s.unlock(a)
		if h := <-next; h != nil {
			s.Error("a waiter has got it while the client shuts down")
		}
		s.unlock(r)
		kit.OK(s.T, <-down)
	})
}

// The owner of a part, of a hold whose parts have several.
func TestOwnerFromPart(t *testing.T) {
	fake(t, func(s *stage) {
		third, _ := s.Client()
		h := s.must(holdfast.NewRedLock(s.x, s.elsewhere.NewMutex("y"), third.NewMutex("z")).Lock(background))
		owner, ok := holdfast.OwnerFrom(h.Context(), s.x)
		for _, part := range h.Parts() { // two of three may have been enough
			if part.Name() == "x" && (owner != part.Owner() || !ok) {
				s.Errorf("%v, %v, and its part has %v", owner, ok, part.Owner())
			}
		}
		s.unlock(h)
	})
}
