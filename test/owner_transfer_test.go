package test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// parsed is an owner as another process is told it.
func parsed(t *testing.T, owner holdfast.Owner) holdfast.Owner {
	t.Helper()
	there, err := holdfast.ParseOwner(owner.String())
	ok(t, err)
	return there
}

// A hold goes from one process to another, and nobody gets in between.
func TestTransfer(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, d := w.client()
		rival, _ := w.client()
		h := must(t)(w.lock(a).Lock(background))
		time.Sleep(time.Minute)
		owner, err := h.Detach()
		ok(t, err)
		if owner != h.Owner() || !errors.Is(context.Cause(h.Context()), context.Canceled) || !h.Deadline().IsZero() {
			t.Errorf("detached as %v, cause %v, deadline %v", owner, context.Cause(h.Context()), h.Deadline())
		}
		wantError(t, h.Unlock(), holdfast.ErrNotHeld)
		_, err = h.Detach()
		wantError(t, err, holdfast.ErrNotHeld)
		w.wantCount("x", owner, 1)
		_, err = w.lock(a).Lock(holdfast.WithOwner(background, owner))
		wantError(t, err, holdfast.ErrInvalid) // it is about to be replaced
		time.Sleep(5 * time.Second)
		_, err = w.rival(rival).TryLock(background)
		wantError(t, err, holdfast.ErrLocked)
		seen := count(d)
		adopted := must(t)(w.lock(b).Adopt(background, parsed(t, owner)))
		if n := seen.all(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		if adopted.Owner() == owner {
			t.Error("the owner is still the giver's")
		}
		w.wantCount("x", adopted.Owner(), 1)
		if h.Token() > 0 && adopted.Token() <= h.Token() {
			t.Errorf("adopted with token %d, taken with %d", adopted.Token(), h.Token())
		}
		time.Sleep(10 * time.Minute) // b renews it, sixty times
		w.wantCount("x", adopted.Owner(), 1)
		_, err = w.lock(b).Adopt(background, owner)
		wantError(t, err, holdfast.ErrNotHeld)
		if w.kind.nests {
			unlock(t, must(t)(w.lock(b).TryLock(adopted.Context())))
		}
		unlock(t, adopted)
		w.wantCount("x", adopted.Owner(), 0)
	})
}

// What is not detached, or cannot be.
func TestTransferRefused(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, _ := w.client()
		_, err := w.lock(b).Adopt(background, a.NewOwner())
		wantError(t, err, holdfast.ErrNotHeld)
		_, err = w.lock(b).Adopt(background, holdfast.Owner{})
		wantError(t, err, holdfast.ErrInvalid)
		h := must(t)(w.lock(a).TryLock(background))
		nested := must(t)(w.lock(a).Lock(h.Context()))
		for _, one := range []*holdfast.Hold{h, nested} {
			_, err = one.Detach()
			wantError(t, err, holdfast.ErrReentrant)
		}
		unlock(t, nested)
		w.wantCount("x", h.Owner(), 1)
		unlock(t, h)
		short := must(t)(w.lock(a).Lock(background, holdfast.FixedLease(time.Second)))
		<-short.Context().Done()
		_, err = short.Detach()
		wantError(t, err, holdfast.ErrLost)
		s := a.NewPermitSemaphore("s")
		ok(t, s.SetPermits(background, 1))
		permit := must(t)(s.TryLock(background))
		several := must(t)(holdfast.NewMultiLock(a.NewMutex("m"), w.lock(a)).Lock(background))
		for _, one := range []*holdfast.Hold{permit, several} {
			_, err = one.Detach()
			wantError(t, err, holdfast.ErrInvalid)
			unlock(t, one)
		}
		w.do("DEL", "s", "{s}:timeout", "holdfast_calls:{s}")
	})
}

// An owner of both sides of a read-write lock keeps both: whoever took one over
// would be beside the other.
func TestTransferOfOneSide(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, _ := w.client()
		m := a.NewRWMutex("x")
		writing := must(t)(m.Lock(background))
		reading := must(t)(m.RLocker().Lock(writing.Context()))
		for _, h := range []*holdfast.Hold{writing, reading} {
			_, err := h.Detach()
			wantError(t, err, holdfast.ErrReentrant)
		}
		_, err := b.NewRWMutex("x").RLocker().Adopt(background, writing.Owner())
		wantError(t, err, holdfast.ErrReentrant)
		_, err = b.NewRWMutex("x").Adopt(background, writing.Owner())
		wantError(t, err, holdfast.ErrReentrant)
		unlock(t, reading)
		unlock(t, writing)
	})
}

// Adopting what was not detached is taking it away: its holder is told as soon as
// after a forced unlock.
func TestTheftIsTold(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		if w.kind.polls {
			return // nobody listens, and the next renewal tells
		}
		a, _ := w.client()
		b, _ := w.client()
		h := must(t)(w.lock(a).Lock(background))
		time.Sleep(2 * time.Second)
		adopted := must(t)(w.lock(b).Adopt(background, h.Owner()))
		time.Sleep(100 * time.Millisecond)
		wantLost(t, h)
		wantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(5 * time.Second)
		w.wantCount("x", adopted.Owner(), 1) // the loser's Unlock takes nothing along
		unlock(t, adopted)
	})
}

// The giver's acquire was sent twice, and the first send is still on its way when
// it detaches. It must not arrive after the taker's release.
func TestTransferWaitsForWhatIsOnItsWay(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		a, d := w.client()
		b, _ := w.client()
		once(d, "acquire", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		h := must(t)(w.lock(a).Lock(background)) // by the second send
		owner, err := h.Detach()
		ok(t, err)
		unlock(t, must(t)(w.lock(b).Adopt(background, owner)))
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			w.wantCount("x", owner, 0)
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
			fakeKinds(t, func(t *testing.T, w *world) {
				a, _ := w.client()
				b, d := w.client()
				h := must(t)(w.lock(a).Lock(background))
				owner, err := h.Detach()
				ok(t, err)
				once(d, "adopt", test.fault)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				if test.wait > 0 {
					time.AfterFunc(test.wait, cancel)
				}
				adopted, err := w.lock(b).Adopt(ctx, owner)
				if test.wait == 0 {
					ok(t, err)
					w.wantCount("x", adopted.Owner(), 1)
					unlock(t, adopted)
				} else {
					wantError(t, err, context.Canceled)
				}
				time.Sleep(31 * time.Second) // a lease, and the answer to a lost send
				w.wantCount("x", owner, 0)
			})
		})
	}
}

// A giver or a taker that is killed costs the rest of the lease, and no more.
func TestTransferOfTheKilled(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, d := w.client()
		rival, _ := w.client()
		for _, killed := range []string{"giver", "taker"} {
			h := must(t)(w.lock(a).Lock(background))
			owner, err := h.Detach()
			ok(t, err)
			if killed == "taker" {
				adopted := must(t)(w.lock(b).Adopt(background, owner))
				silent(d, memdriver.Fault{LoseRequest: true})
				defer func() { _ = adopted.Unlock() }()
			}
			start := time.Now()
			next := must(t)(w.rival(rival).Lock(background))
			if took := time.Since(start); took > 31*time.Second {
				t.Errorf("the %s: %v", killed, took)
			}
			unlock(t, next)
			d.SetFaults(nil)
			time.Sleep(time.Minute)
		}
	})
}

// The context of an adopted hold has no owner any more when the hold has been given back.
func TestAdoptedHoldsContextAfterIt(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		mu := c.NewMutex("x")
		owner, err := must(t)(mu.Lock(background)).Detach()
		ok(t, err)
		h := must(t)(mu.Adopt(background, owner))
		if got, _ := holdfast.OwnerFrom(h.Context(), mu); got != h.Owner() {
			t.Errorf("owner %v, want %v", got, h.Owner())
		}
		unlock(t, h)
		if got, has := holdfast.OwnerFrom(context.WithoutCancel(h.Context()), mu); has {
			t.Errorf("it still speaks for %v", got)
		}
	})
}

// An adopted hold lives for as long as its own lease, whatever the giver's was: the taker
// knows of no other, and would leave the lock to the rest of it.
func TestTransferEndsTheGiversLease(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, d := w.client()
		h := must(t)(w.lock(a).Lock(background, holdfast.RenewedLease(10*time.Minute)))
		owner, err := h.Detach()
		ok(t, err)
		adopted := must(t)(w.lock(b).Adopt(background, owner, holdfast.FixedLease(5*time.Second)))
		if lives, key := w.lives(adopted.Owner()), w.pttl("x"); lives > 5*time.Second || key > 5*time.Second {
			t.Errorf("the hold lives for %v, the key for %v", lives, key)
		}
		ok(t, adopted.Extend(background, time.Minute))
		start := time.Now()
		away(d)
		if took := lostAt(t, adopted, start); took < 55*time.Second || took > time.Minute {
			t.Errorf("lost after %v", took)
		}
		d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		w.wantCount("x", adopted.Owner(), 0)
		wantError(t, adopted.Unlock(), holdfast.ErrLost)
	})
}
