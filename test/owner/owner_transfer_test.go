package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// parsed is an owner as another process is told it.
func parsed(t *testing.T, owner holdfast.Owner) holdfast.Owner {
	t.Helper()
	there, err := holdfast.ParseOwner(owner.String())
	kit.OK(t, err)
	return there
}

// A hold goes from one process to another, and nobody gets in between.
func TestTransfer(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		rival, _ := w.Client()
		h := kit.Must(t)(w.Lock(a).Lock(background))
		time.Sleep(time.Minute)
		owner, err := h.Detach()
		kit.OK(t, err)
		if owner != h.Owner() || !errors.Is(context.Cause(h.Context()), context.Canceled) || !h.Deadline().IsZero() {
			t.Errorf("detached as %v, cause %v, deadline %v", owner, context.Cause(h.Context()), h.Deadline())
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
		_, err = h.Detach()
		kit.WantError(t, err, holdfast.ErrNotHeld)
		w.WantCount("x", owner, 1)
		kit.Fails(t, holdfast.ErrInvalid)(w.Lock(a).Lock(holdfast.WithOwner(background, owner))) // it is about to be replaced
		time.Sleep(5 * time.Second)
		kit.Fails(t, holdfast.ErrLocked)(w.Rival(rival).TryLock(background))
		seen := kit.Count(d)
		adopted := kit.Must(t)(w.Lock(b).Adopt(background, parsed(t, owner)))
		if n := seen.All(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		if adopted.Owner() == owner {
			t.Error("the owner is still the giver's")
		}
		w.WantCount("x", adopted.Owner(), 1)
		if h.Token() > 0 && adopted.Token() <= h.Token() {
			t.Errorf("adopted with token %d, taken with %d", adopted.Token(), h.Token())
		}
		time.Sleep(10 * time.Minute) // b renews it, sixty times
		w.WantCount("x", adopted.Owner(), 1)
		kit.Fails(t, holdfast.ErrNotHeld)(w.Lock(b).Adopt(background, owner))
		if w.Kind.Nests {
			kit.Unlock(t, kit.Must(t)(w.Lock(b).TryLock(adopted.Context())))
		}
		kit.Unlock(t, adopted)
		w.WantCount("x", adopted.Owner(), 0)
	})
}

// What is not detached, or cannot be.
func TestTransferRefused(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		kit.Fails(t, holdfast.ErrNotHeld)(w.Lock(b).Adopt(background, a.NewOwner()))
		_, err := w.Lock(b).Adopt(background, holdfast.Owner{})
		kit.WantError(t, err, holdfast.ErrInvalid)
		h := kit.Must(t)(w.Lock(a).TryLock(background))
		nested := kit.Must(t)(w.Lock(a).Lock(h.Context()))
		for _, one := range []*holdfast.Hold{h, nested} {
			_, err = one.Detach()
			kit.WantError(t, err, holdfast.ErrReentrant)
		}
		kit.Unlock(t, nested)
		w.WantCount("x", h.Owner(), 1)
		kit.Unlock(t, h)
		short := kit.Must(t)(w.Lock(a).Lock(background, holdfast.FixedLease(time.Second)))
		<-short.Context().Done()
		_, err = short.Detach()
		kit.WantError(t, err, holdfast.ErrLost)
		s := a.NewPermitSemaphore("s")
		kit.OK(t, s.SetPermits(background, 1))
		permit := kit.Must(t)(s.TryLock(background))
		several := kit.Must(t)(holdfast.NewMultiLock(a.NewMutex("m"), w.Lock(a)).Lock(background))
		for _, one := range []*holdfast.Hold{permit, several} {
			_, err = one.Detach()
			kit.WantError(t, err, holdfast.ErrInvalid)
			kit.Unlock(t, one)
		}
		w.Do("DEL", "s", "{s}:timeout", "holdfast_calls:{s}")
	})
}

// An owner of both sides of a read-write lock keeps both: whoever took one over
// would be beside the other.
func TestTransferOfOneSide(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		m := a.NewRWMutex("x")
		writing := kit.Must(t)(m.Lock(background))
		reading := kit.Must(t)(m.RLocker().Lock(writing.Context()))
		for _, h := range []*holdfast.Hold{writing, reading} {
			_, err := h.Detach()
			kit.WantError(t, err, holdfast.ErrReentrant)
		}
		kit.Fails(t, holdfast.ErrReentrant)(b.NewRWMutex("x").RLocker().Adopt(background, writing.Owner()))
		kit.Fails(t, holdfast.ErrReentrant)(b.NewRWMutex("x").Adopt(background, writing.Owner()))
		kit.Unlock(t, reading)
		kit.Unlock(t, writing)
	})
}

// Adopting what was not detached is taking it away: its holder is told as soon as
// after a forced unlock.
func TestTheftIsTold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Polls {
			return // nobody listens, and the next renewal tells
		}
		a, _ := w.Client()
		b, _ := w.Client()
		h := kit.Must(t)(w.Lock(a).Lock(background))
		time.Sleep(2 * time.Second)
		adopted := kit.Must(t)(w.Lock(b).Adopt(background, h.Owner()))
		time.Sleep(100 * time.Millisecond)
		kit.WantLost(t, h)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(5 * time.Second)
		w.WantCount("x", adopted.Owner(), 1) // the loser's Unlock takes nothing along
		kit.Unlock(t, adopted)
	})
}

// The giver's acquire was sent twice, and the first send is still on its way when
// it detaches. It must not arrive after the taker's release.
func TestTransferWaitsForWhatIsOnItsWay(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		a, d := w.Client()
		b, _ := w.Client()
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		h := kit.Must(t)(w.Lock(a).Lock(background)) // by the second send
		owner, err := h.Detach()
		kit.OK(t, err)
		kit.Unlock(t, kit.Must(t)(w.Lock(b).Adopt(background, owner)))
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			w.WantCount("x", owner, 0)
		}
	})
}

// An Adopt whose answer is lost is asked again, and is done. One that fails leaves
// nothing that nobody holds.
func TestTransferWithLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		fault memdriver.Fault
		wait  time.Duration
	}{
		"lost":             {memdriver.Fault{LoseReply: true}, 0},
		"lost, given up":   {memdriver.Fault{LoseReply: true}, 100 * time.Millisecond},
		"late, given up":   {memdriver.Fault{DelayRequest: 500 * time.Millisecond}, 100 * time.Millisecond},
		"never, given up":  {memdriver.Fault{LoseRequest: true}, 100 * time.Millisecond},
		"never, and again": {memdriver.Fault{LoseRequest: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				a, _ := w.Client()
				b, d := w.Client()
				h := kit.Must(t)(w.Lock(a).Lock(background))
				owner, err := h.Detach()
				kit.OK(t, err)
				kit.Once(d, "adopt", test.fault)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				if test.wait > 0 {
					time.AfterFunc(test.wait, cancel)
				}
				adopted, err := w.Lock(b).Adopt(ctx, owner)
				if test.wait == 0 {
					kit.OK(t, err)
					w.WantCount("x", adopted.Owner(), 1)
					kit.Unlock(t, adopted)
				} else {
					kit.WantError(t, err, context.Canceled)
				}
				time.Sleep(31 * time.Second) // a lease, and the answer to a lost send
				w.WantCount("x", owner, 0)
			})
		})
	}
}

// A giver or a taker that is killed costs the rest of the lease, and no more.
func TestTransferOfTheKilled(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		rival, _ := w.Client()
		for _, killed := range []string{"giver", "taker"} {
			h := kit.Must(t)(w.Lock(a).Lock(background))
			owner, err := h.Detach()
			kit.OK(t, err)
			if killed == "taker" {
				adopted := kit.Must(t)(w.Lock(b).Adopt(background, owner))
				kit.Silent(d, memdriver.Fault{LoseRequest: true})
				defer func() { _ = adopted.Unlock() }()
			}
			start := time.Now()
			next := kit.Must(t)(w.Rival(rival).Lock(background))
			if took := time.Since(start); took > 31*time.Second {
				t.Errorf("the %s: %v", killed, took)
			}
			kit.Unlock(t, next)
			d.SetFaults(nil)
			time.Sleep(time.Minute)
		}
	})
}

// The context of an adopted hold has no owner any more when the hold has been given back.
func TestAdoptedHoldsContextAfterIt(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		mu := c.NewMutex("x")
		owner, err := kit.Must(t)(mu.Lock(background)).Detach()
		kit.OK(t, err)
		h := kit.Must(t)(mu.Adopt(background, owner))
		if got, _ := holdfast.OwnerFrom(h.Context(), mu); got != h.Owner() {
			t.Errorf("owner %v, want %v", got, h.Owner())
		}
		kit.Unlock(t, h)
		if got, has := holdfast.OwnerFrom(context.WithoutCancel(h.Context()), mu); has {
			t.Errorf("it still speaks for %v", got)
		}
	})
}

// An adopted hold lives for as long as its own lease, whatever the giver's was: the taker
// knows of no other, and would leave the lock to the rest of it.
func TestTransferEndsTheGiversLease(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		h := kit.Must(t)(w.Lock(a).Lock(background, holdfast.RenewedLease(10*time.Minute)))
		owner, err := h.Detach()
		kit.OK(t, err)
		adopted := kit.Must(t)(w.Lock(b).Adopt(background, owner, holdfast.FixedLease(5*time.Second)))
		if lives, key := w.Lives(adopted.Owner()), w.PTTL("x"); lives > 5*time.Second || key > 5*time.Second {
			t.Errorf("the hold lives for %v, the key for %v", lives, key)
		}
		kit.OK(t, adopted.Extend(background, time.Minute))
		start := time.Now()
		kit.Away(d)
		kit.Took(t, kit.LostAt(t, adopted, start), 55*time.Second, time.Minute, "lost after %v")
		d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		w.WantCount("x", adopted.Owner(), 0)
		kit.WantError(t, adopted.Unlock(), holdfast.ErrLost)
	})
}
