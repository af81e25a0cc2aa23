package permits

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// This file is about what others do to permits that a hold has.

// A holder is told at once that its permits were given back by their ids, by force,
// or by another client: as it is told of a forced unlock. Without messages it finds
// out at its next renewal.
func TestReleaseByIDIsToldAtOnce(t *testing.T) {
	for what, row := range map[string]struct {
		fixed, heard bool
		most         time.Duration
	}{
		"renewed, not heard": {false, false, 10 * time.Second},
		"renewed":            {false, true, 100 * time.Millisecond},
		"fixed":              {true, true, 100 * time.Millisecond}, // and not heard, it would ask for nothing
	} {
		t.Run(what, func(t *testing.T) {
			kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				s, options := c.NewPermitSemaphore("x"), fixed(row.fixed, time.Hour)
				one, two := kit.Must(t)(s.Lock(background, options...)), kit.Must(t)(s.Acquire(background, 2, options...))
				time.Sleep(1100 * time.Millisecond)
				d.LoseMessages(!row.heard)
				operator, _ := w.Client()
				other := operator.NewPermitSemaphore("x")
				start := time.Now()
				kit.OK(t, other.ReleasePermits(background, two.PermitIDs()...))
				lostWithin(t, two, start, 0, row.most)
				kit.OK(t, one.Context().Err())
				kit.WantError(t, two.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
				start = time.Now()
				wantDid(t, true)(other.ForceUnlock(background))
				lostWithin(t, one, start, 0, row.most)
				kit.WantError(t, one.Unlock(), holdfast.ErrLost)
				d.LoseMessages(false)
				w.WantReply("3", "GET", "x")
			})
		})
	}
}

// A hold of which some permits were given back goes on with the others: they are
// renewed, and Unlock gives them back. Only the last one ends it.
func TestHoldGoesOnWithTheRest(t *testing.T) {
	for _, heard := range []bool{true, false} {
		kit.PermitsWorld(t, 6, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			s := c.NewPermitSemaphore("x")
			other, _ := w.Client()
			for _, all := range []bool{false, true} {
				h := kit.Must(t)(s.Acquire(background, 6))
				ids := h.PermitIDs()
				time.Sleep(1100 * time.Millisecond)
				d.LoseMessages(!heard)
				kit.OK(t, other.NewPermitSemaphore("x").ReleasePermits(background, ids[0], ids[2], ids[3], ids[5]))
				w.WantReply("4", "GET", "x")
				if heard {
					synctest.Wait()
				} else {
					time.Sleep(10 * time.Second)
				}
				left := []holdfast.Owner{ids[1], ids[4]}
				if got := h.PermitIDs(); !slices.Equal(got, left) {
					t.Errorf("heard %v: ids %v, want %v", heard, got, left)
				}
				time.Sleep(time.Minute) // two renewals and more
				kit.OK(t, h.Context().Err(), h.Extend(background, time.Minute))
				w.WantReply("4", "GET", "x")
				if all {
					kit.OK(t, other.NewPermitSemaphore("x").ReleasePermits(background, left...))
					kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
				} else {
					kit.Unlock(t, h)
				}
				w.WantReply("6", "GET", "x")
				d.LoseMessages(false)
			}
		})
	}
}

// trustedFor reports an error unless h may be trusted until shortly before its permits
// end, and no longer.
func trustedFor(t *testing.T, h *holdfast.Hold, left time.Duration) {
	t.Helper()
	trusted := time.Until(h.Deadline())
	if trusted > left-left/100 || trusted < left-left/50-10*time.Millisecond {
		t.Errorf("trusted for %v, want 1 %% less than %v", trusted, left)
	}
}

// A lease that was changed by the permit's id is the hold's, renewed or not.
func TestLeaseChangedByID(t *testing.T) {
	for _, ends := range []bool{true, false} {
		for _, same := range []bool{true, false} {
			kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				s := c.NewPermitSemaphore("x")
				other, after := s, 100*time.Millisecond
				if !same {
					operator, _ := w.Client()
					other, after = operator.NewPermitSemaphore("x"), 1100*time.Millisecond
				}
				options := fixed(ends, 10*time.Second)
				one, two := kit.Must(t)(s.Lock(background, options...)), kit.Must(t)(s.Acquire(background, 2, options...))
				time.Sleep(after)
				kit.OK(t, other.ExtendPermit(background, one.PermitIDs()[0], time.Hour))
				kit.OK(t, other.ExtendPermit(background, two.PermitIDs()[0], time.Hour))
				synctest.Wait()
				trustedFor(t, one, time.Hour)
				if ends { // it ends with the other permit
					trustedFor(t, two, 10*time.Second-after)
				}
				kit.OK(t, other.ExtendPermit(background, two.PermitIDs()[1], time.Minute))
				synctest.Wait()
				trustedFor(t, two, time.Minute)
				kit.OK(t, other.ExtendPermit(background, one.PermitIDs()[0], time.Second)) // shortens nothing
				time.Sleep(30 * time.Second)
				trustedFor(t, one, time.Hour-30*time.Second)
				kit.OK(t, one.Context().Err(), two.Context().Err())
				kit.Unlock(t, one)
				kit.Unlock(t, two)
			})
		}
	}
}

// Without messages, the next renewal finds it. WithMaxHold lets it last no longer for that.
func TestLeaseChangedByIDIsFoundByARenewal(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		operator, _ := w.Client()
		other := operator.NewPermitSemaphore("x")
		for _, options := range [][]holdfast.ClientOption{nil, {holdfast.WithMaxHold(2 * time.Minute)}} {
			c, d := w.Client(options...)
			s := c.NewPermitSemaphore("x")
			h := kit.Must(t)(s.Lock(background))
			acquired := time.Now()
			d.LoseMessages(true)
			time.Sleep(5 * time.Second)
			kit.OK(t, other.ExtendPermit(background, h.PermitIDs()[0], time.Hour))
			time.Sleep(5 * time.Second)
			d.LoseMessages(false)
			if options == nil {
				trustedFor(t, h, time.Hour-5*time.Second)
				kit.Unlock(t, h)
				continue
			}
			lostWithin(t, h, acquired, 115*time.Second, 2*time.Minute)
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		}
	})
}

// If the lease of one permit was made longer, the hold ends with the others, and
// Unlock still gives that one back.
func TestLongerPermitOfALostHoldIsGivenBack(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x")
		start := time.Now()
		h := kit.Must(t)(s.Acquire(background, 2, holdfast.FixedLease(10*time.Second)))
		kit.OK(t, s.ExtendPermit(background, h.PermitIDs()[0], time.Hour))
		lostWithin(t, h, start, 0, 10*time.Second)
		time.Sleep(5 * time.Minute)
		wantFree(t, s, 1)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		synctest.Wait()
		w.WantReply("2", "GET", "x")
	})
}

// A refusal says why, of each semaphore as far as can be known.
func TestWhyThereAreNoPermits(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s, plain := c.NewPermitSemaphore("x"), c.NewUnleasedSemaphore("y")
		refused := func(err error, want holdfast.PermitsError, text string) {
			t.Helper()
			kit.WantError(t, err, holdfast.ErrNoPermits, holdfast.ErrLocked)
			var got *holdfast.PermitsError
			if !errors.As(err, &got) || *got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.TTL != want.TTL || locked.Name != want.Name {
				t.Errorf("as of a lock: %+v", locked)
			}
		}
		acquire := func(n int, options ...holdfast.LockOption) error {
			h, err := s.Acquire(background, n, options...)
			if err == nil {
				kit.Unlock(t, h)
			}
			return err
		}
		try := func(n int) error { _, err := s.TryAcquire(background, n); return err }
		const wait = 5 * time.Second

		unset := holdfast.PermitsError{Name: "x", Wanted: 1, Unset: true, TTL: holdfast.NoExpiry}
		refused(try(1), unset, "Permits(n)")
		refused(acquire(1, holdfast.Wait(wait)), unset, "nobody has set")
		synctest.Wait() // it has left the line
		kit.OK(t, s.SetPermits(background, 0))
		refused(try(1), holdfast.PermitsError{Name: "x", Wanted: 1, TTL: holdfast.NoExpiry}, "1 wanted, but it has 0 in all")
		kit.OK(t, s.SetPermits(background, 5))
		refused(try(6), holdfast.PermitsError{Name: "x", Wanted: 6, Available: 5, Total: 5, TTL: holdfast.NoExpiry}, "6 wanted, but it has 5 in all")
		h := kit.Must(t)(s.Acquire(background, 4, holdfast.FixedLease(time.Hour)))
		refused(try(3), holdfast.PermitsError{Name: "x", Wanted: 3, Available: 1, Total: 5, TTL: time.Hour}, "3 wanted, 1 of 5 available")
		ctx, cancel := context.WithCancel(background)
		gone := refusing(t, func() error { return errOf(s.Acquire(ctx, 5)) }, context.Canceled)
		synctest.Wait()
		refused(try(1), holdfast.PermitsError{Name: "x", Wanted: 1, Available: 1, Total: 5, Reserved: 5, TTL: time.Hour},
			"1 wanted and 1 available, but 5 are reserved for one who has waited longer")
		cancel()
		gone()
		synctest.Wait()
		kit.OK(t, s.AddPermits(background, -3))
		refused(acquire(1, holdfast.Wait(wait)),
			holdfast.PermitsError{Name: "x", Wanted: 1, Available: -2, Total: 2, TTL: time.Hour - 4*1001*time.Millisecond}, "all 4 are held")
		synctest.Wait()
		kit.Unlock(t, h)

		refused(plain.TryAcquire(background, 1),
			holdfast.PermitsError{Name: "y", Wanted: 1, Total: -1, Unset: true, TTL: holdfast.NoExpiry}, "Permits(n)")
		kit.OK(t, plain.Release(2))
		refused(plain.Acquire(background, 3, holdfast.Wait(wait)),
			holdfast.PermitsError{Name: "y", Wanted: 3, Available: 2, Total: -1, TTL: holdfast.NoExpiry}, "3 wanted, 2 available")
		time.Sleep(2 * time.Minute)
		w.Do("DEL", "x", "y")
	})
}

// Who waits for permits that the server has lost gets them: those who know how many there are set them
// again.
func TestLostPermitsAreSetAgain(t *testing.T) {
	for name, acquire := range map[string]func(c *holdfast.Client) error{
		"leased": func(c *holdfast.Client) error {
			return errOf(c.NewPermitSemaphore("x", holdfast.Permits(1)).Acquire(background, 1, holdfast.Wait(time.Minute)))
		},
		"unleased": func(c *holdfast.Client) error {
			return c.NewUnleasedSemaphore("x", holdfast.Permits(1)).Acquire(background, 1, holdfast.Wait(time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				other, _ := w.Client()
				kit.OK(t, acquire(c)) // it is not given back
				time.AfterFunc(time.Second, func() { w.Do("FLUSHALL") })
				start := time.Now()
				kit.OK(t, acquire(other))
				within(t, start, time.Second, 5*time.Second)
				kit.OK(t, c.Close(), other.Close())
				w.Do("DEL", "x", "{x}:timeout")
				time.Sleep(kit.CallsLive)
			})
		})
	}
}

// A semaphore that ends takes the permits with it, so no hold is trusted beyond that:
// whether its holder has acquired it before, or after the end was set.
func TestHoldsEndWithTheirSemaphore(t *testing.T) {
	for _, leased := range []bool{false, true} {
		for _, permits := range []int{1, 2} {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				other, _ := w.Client()
				s, operator := c.NewPermitSemaphore("x", holdfast.Permits(4)), other.NewPermitSemaphore("x")
				options := fixed(leased, time.Hour)
				before := kit.Must(t)(s.Acquire(background, permits, options...))
				time.Sleep(1100 * time.Millisecond)
				for _, d := range []time.Duration{3 * time.Second, holdfast.NoExpiry} {
					expire(t, operator, d)
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				kit.OK(t, before.Context().Err()) // it does not end any more
				start := time.Now()
				expire(t, operator, 5*time.Second)
				after := kit.Must(t)(s.Acquire(background, permits, options...))
				if left := time.Until(after.Deadline()); left > 5*time.Second || left < 4*time.Second {
					t.Errorf("acquired for %v", left)
				}
				var lost *holdfast.LostError
				for _, h := range []*holdfast.Hold{before, after} {
					lostWithin(t, h, start, 4*time.Second, 5*time.Second)
					if cause := context.Cause(h.Context()); !errors.As(cause, &lost) || lost.Reason != holdfast.LostLeaseOver {
						t.Errorf("fixed %v: %v", leased, cause)
					}
					kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				}
				time.Sleep(kit.CallsLive)
				w.WantReply("", "KEYS", "*")
			})
		}
	}
}

// Deleting a semaphore is told to holders of other clients as force is.
func TestDeletedPermitsAreToldAtOnce(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		s := c.NewPermitSemaphore("x", holdfast.Permits(1))
		h := kit.Must(t)(s.Lock(background, holdfast.FixedLease(time.Hour)))
		time.Sleep(1100 * time.Millisecond)
		start := time.Now()
		wantDid(t, true)(other.NewPermitSemaphore("x").Delete(background))
		lostWithin(t, h, start, 0, 100*time.Millisecond)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(kit.CallsLive)
	})
}

// Holds of thousands of permits are renewed apart: Redis serves nobody else meanwhile.
func TestManyPermitsAreRenewedApart(t *testing.T) {
	const holds = 2
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewPermitSemaphore("x", holdfast.Permits(2*holds*holdfast.MaxPermitsPerHold))
		var all []*holdfast.Hold
		for range holds {
			all = append(all, kit.Must(t)(s.Acquire(background, holdfast.MaxPermitsPerHold)), kit.Must(t)(s.Lock(background)))
		}
		seen := kit.Spy(d)
		time.Sleep(21 * time.Second)
		many, single := 0, 0
		for _, args := range seen() {
			switch n := len(args); {
			case n > holdfast.MaxPermitsPerHold+100:
				t.Errorf("a call of %d arguments", n)
			case n > holdfast.MaxPermitsPerHold:
				many++
			default:
				single++
			}
		}
		if many < 2*holds || single < 2 {
			t.Errorf("in 21 s, %d calls for the holds of many permits and %d for the others", many, single)
		}
		for _, h := range all {
			kit.Unlock(t, h)
		}
		w.Do("DEL", "x")
		time.Sleep(kit.CallsLive)
	})
}
