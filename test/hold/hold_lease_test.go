package hold

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A lease of its own is renewed in place of the client's, and is how long the lock of a
// crashed holder blocks others.
func TestRenewedLease(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background, holdfast.RenewedLease(6*time.Second)))
		time.Sleep(2 * time.Minute) // twenty leases
		if err := h.Context().Err(); err != nil {
			t.Fatal(context.Cause(h.Context()))
		}
		kit.Away(d)
		crashed := time.Now()
		next := kit.Must(t)(w.Rival(other).Lock(background))
		kit.Took(t, time.Since(crashed), 3*time.Second, 6*time.Second+50*time.Millisecond, "free after %v")
		kit.Unlock(t, next)
		kit.WantLost(t, h)
		d.SetFaults(nil)
		_ = h.Unlock()
	})
}

// Of an owner's holds, the longest of the leases that are renewed is.
func TestRenewedLeasesNested(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		outer := kit.Must(t)(w.Lock(c).Lock(background, holdfast.RenewedLease(5*time.Second)))
		left := func() time.Duration { return time.Until(outer.Deadline()) }
		inner := kit.Must(t)(w.Lock(c).Lock(outer.Context(), holdfast.RenewedLease(time.Minute)))
		time.Sleep(5 * time.Minute)
		if got := left(); got < 30*time.Second {
			t.Errorf("%v left beside a lease of a minute", got)
		}
		kit.Unlock(t, inner)
		time.Sleep(5 * time.Minute)
		if got := left(); got > 5*time.Second || got < 2*time.Second {
			t.Errorf("%v left of a lease of 5 s", got)
		}
		kit.Unlock(t, outer)
	})
}

// Several locks are inspected at once.
func TestInspectSeveral(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...)
		state := func() holdfast.State {
			t.Helper()
			found, err := m.Inspect(background)
			if err != nil || found.Name != "a+b" || len(found.Parts) != 2 || found.Parts[1].Name != "b" {
				t.Fatalf("%+v, %v", found, err)
			}
			return found
		}
		if state().Locked() {
			t.Error("locked, but free")
		}
		one := kit.Must(t)(c.NewMutex("a").Lock(background))
		if s := state(); s.Locked() || s.HeldBy(one.Owner()) || !s.Parts[0].HeldBy(one.Owner()) || s.TTL != 0 {
			t.Errorf("%+v: one part is held", s)
		}
		kit.Unlock(t, one)
		h := kit.Must(t)(m.Lock(background))
		if s := state(); !s.Locked() || !s.HeldBy(h.Owner()) || s.Count(h.Owner()) != 1 || s.TTL != 30*time.Second {
			t.Errorf("%+v: all parts are held", s)
		}
		kit.Unlock(t, h)
		_, err := holdfast.NewMultiLock(append(kit.Mutexes(c, "a"), holdfast.Locker(foreign{}))...).Inspect(background)
		kit.WantError(t, err, holdfast.ErrInvalid)

		s := kit.Several(w, 5)
		red := s.Redlock("x")
		h = kit.Must(t)(red.Lock(background))
		time.Sleep(time.Second)
		found, err := red.Inspect(background)
		if err != nil || !found.Locked() || len(found.Parts) != 5 || found.TTL <= 0 {
			t.Errorf("%+v, %v", found, err)
		}
		kit.Unlock(t, h)
	})
}

// foreign is a lock from elsewhere.
type foreign struct{ holdfast.Locker }

func (foreign) Name() string { return "foreign" }

// Leases that change again and again do not put off a renewal that is due.
func TestChangingLeasesAreRenewed(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		var holds []*holdfast.Hold
		for i := range 10 {
			lease := 3*time.Second - time.Duration(i)*100*time.Millisecond
			holds = append(holds, kit.Must(t)(w.Lock(c).Lock(ctx, holdfast.RenewedLease(lease))))
		}
		for _, h := range holds {
			time.Sleep(600 * time.Millisecond)
			if err := h.Context().Err(); err != nil {
				t.Fatal(context.Cause(h.Context()))
			}
			kit.Unlock(t, h)
		}
	})
}
