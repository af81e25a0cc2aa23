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
			on(t, "permits", 3, func(s *stage) {
				one, two := s.acquire(1, fixed(row.fixed, time.Hour)...), s.acquire(2, fixed(row.fixed, time.Hour)...)
				time.Sleep(1100 * time.Millisecond)
				s.d.LoseMessages(!row.heard)
				start := time.Now()
				kit.OK(s.T, s.theirs.ReleasePermits(background, two.PermitIDs()...))
				lostWithin(s.T, two, start, 0, row.most)
				kit.OK(s.T, one.Context().Err())
				start = time.Now()
				kit.WantDid(s.T, true)(s.theirs.ForceUnlock(background))
				lostWithin(s.T, one, start, 0, row.most)
				s.d.LoseMessages(false)
				s.WantReply("3", "GET", "x")
			})
		})
	}
}

// A hold of which some permits were given back goes on with the others: they are
// renewed, and Unlock gives them back. Only the last one ends it.
func TestHoldGoesOnWithTheRest(t *testing.T) {
	for _, heard := range []bool{true, false} {
		for _, all := range []bool{false, true} {
			on(t, "permits", 6, func(s *stage) {
				h := s.acquire(6)
				ids := h.PermitIDs()
				time.Sleep(1100 * time.Millisecond)
				s.d.LoseMessages(!heard)
				kit.OK(s.T, s.theirs.ReleasePermits(background, ids[0], ids[2], ids[3], ids[5]))
				s.WantReply("4", "GET", "x")
				if synctest.Wait(); !heard {
					time.Sleep(10 * time.Second)
				}
				left := []holdfast.Owner{ids[1], ids[4]}
				if got := h.PermitIDs(); !slices.Equal(got, left) {
					s.T.Errorf("heard %v: ids %v, want %v", heard, got, left)
				}
				time.Sleep(time.Minute) // two renewals and more
				kit.OK(s.T, h.Context().Err(), h.Extend(background, time.Minute))
				s.WantReply("4", "GET", "x")
				if all {
					kit.OK(s.T, s.theirs.ReleasePermits(background, left...))
					kit.WantError(s.T, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
				} else {
					kit.Unlock(s.T, h)
				}
				s.WantReply("6", "GET", "x")
				s.d.LoseMessages(false)
			})
		}
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
			on(t, "permits", 3, func(s *stage) {
				other, after := s.permits, 100*time.Millisecond
				if !same {
					other, after = s.theirs, 1100*time.Millisecond
				}
				one, two := s.acquire(1, fixed(ends, 10*time.Second)...), s.acquire(2, fixed(ends, 10*time.Second)...)
				ids := append(one.PermitIDs(), two.PermitIDs()...)
				time.Sleep(after)
				kit.OK(s.T, other.ExtendPermit(background, ids[0], time.Hour), other.ExtendPermit(background, ids[1], time.Hour))
				synctest.Wait()
				trustedFor(s.T, one, time.Hour)
				if ends { // it ends with the other permit
					trustedFor(s.T, two, 10*time.Second-after)
				}
				kit.OK(s.T, other.ExtendPermit(background, ids[2], time.Minute))
				synctest.Wait()
				trustedFor(s.T, two, time.Minute)
				kit.OK(s.T, other.ExtendPermit(background, ids[0], time.Second)) // shortens nothing
				time.Sleep(30 * time.Second)
				trustedFor(s.T, one, time.Hour-30*time.Second)
				kit.OK(s.T, one.Context().Err(), two.Context().Err())
				kit.Unlock(s.T, one)
				kit.Unlock(s.T, two)
			})
		}
	}
}

// Without messages, the next renewal finds it. WithMaxHold lets it last no longer for that.
func TestLeaseChangedByIDIsFoundByARenewal(t *testing.T) {
	on(t, "permits", 2, func(s *stage) {
		for _, options := range [][]holdfast.ClientOption{nil, {holdfast.WithMaxHold(2 * time.Minute)}} {
			c, d := s.Client(options...)
			h := kit.Must(s.T)(c.NewPermitSemaphore("x").Lock(background))
			acquired := time.Now()
			d.LoseMessages(true)
			time.Sleep(5 * time.Second)
			kit.OK(s.T, s.theirs.ExtendPermit(background, h.PermitIDs()[0], time.Hour))
			time.Sleep(5 * time.Second)
			d.LoseMessages(false)
			if options == nil {
				trustedFor(s.T, h, time.Hour-5*time.Second)
				kit.Unlock(s.T, h)
			} else {
				lostWithin(s.T, h, acquired, 115*time.Second, 2*time.Minute)
			}
		}
	})
}

// If the lease of one permit was made longer, the hold ends with the others, and
// Unlock still gives that one back.
func TestLongerPermitOfALostHoldIsGivenBack(t *testing.T) {
	on(t, "permits", 2, func(s *stage) {
		start := time.Now()
		h := s.acquire(2, holdfast.FixedLease(10*time.Second))
		kit.OK(s.T, s.permits.ExtendPermit(background, h.PermitIDs()[0], time.Hour))
		kit.LostAt(s.T, h, start)
		within(s.T, start, 0, 10*time.Second)
		time.Sleep(5 * time.Minute)
		want(s.T, 1)(kit.Available(s.permits))
		kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
		synctest.Wait()
		s.WantReply("2", "GET", "x")
	})
}

// A refusal says why, of each semaphore as far as can be known.
func TestWhyThereAreNoPermits(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		p, plain := s.permits, s.c.NewUnleasedSemaphore("y")
		refused := func(err error, want holdfast.PermitsError, text string) {
			s.T.Helper()
			kit.WantError(s.T, err, holdfast.ErrNoPermits, holdfast.ErrLocked)
			var got *holdfast.PermitsError
			if !errors.As(err, &got) || *got != want || !strings.Contains(err.Error(), text) {
				s.T.Errorf("got %+v, %q; want %+v, %q", got, err, want, text)
			}
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.TTL != want.TTL || locked.Name != want.Name {
				s.T.Errorf("as of a lock: %+v", locked)
			}
		}
		try := func(n int) error { return kit.ErrOf(p.TryAcquire(background, n)) }
		wait := holdfast.Wait(5 * time.Second)

		unset := holdfast.PermitsError{Name: "x", Wanted: 1, Unset: true, TTL: holdfast.NoExpiry}
		refused(try(1), unset, "Permits(n)")
		refused(kit.ErrOf(p.Acquire(background, 1, wait)), unset, "nobody has set")
		synctest.Wait() // it has left the line
		kit.OK(s.T, p.SetPermits(background, 0))
		refused(try(1), holdfast.PermitsError{Name: "x", Wanted: 1, TTL: holdfast.NoExpiry}, "1 wanted, but it has 0 in all")
		kit.OK(s.T, p.SetPermits(background, 5))
		refused(try(6), holdfast.PermitsError{Name: "x", Wanted: 6, Available: 5, Total: 5, TTL: holdfast.NoExpiry}, "6 wanted, but it has 5 in all")
		h := s.acquire(4, holdfast.FixedLease(time.Hour))
		refused(try(3), holdfast.PermitsError{Name: "x", Wanted: 3, Available: 1, Total: 5, TTL: time.Hour}, "3 wanted, 1 of 5 available")
		ctx, cancel := context.WithCancel(background)
		gone := refusing(s.T, func() error { return kit.ErrOf(p.Acquire(ctx, 5)) }, context.Canceled)
		refused(try(1), holdfast.PermitsError{Name: "x", Wanted: 1, Available: 1, Total: 5, Reserved: 5, TTL: time.Hour},
			"1 wanted and 1 available, but 5 are reserved for one who has waited longer")
		cancel()
		gone()
		synctest.Wait()
		kit.OK(s.T, p.AddPermits(background, -3))
		refused(kit.ErrOf(p.Acquire(background, 1, wait)),
			holdfast.PermitsError{Name: "x", Wanted: 1, Available: -2, Total: 2, TTL: time.Hour - 4*1001*time.Millisecond}, "all 4 are held")
		synctest.Wait()
		kit.Unlock(s.T, h)

		refused(plain.TryAcquire(background, 1),
			holdfast.PermitsError{Name: "y", Wanted: 1, Total: -1, Unset: true, TTL: holdfast.NoExpiry}, "Permits(n)")
		kit.OK(s.T, plain.Release(2))
		refused(plain.Acquire(background, 3, wait),
			holdfast.PermitsError{Name: "y", Wanted: 3, Available: 2, Total: -1, TTL: holdfast.NoExpiry}, "3 wanted, 2 available")
		kit.OK(s.T, kit.ErrOf(plain.Delete(background)))
	})
}

// Who waits for permits that the server has lost gets them: those who know how many there are set them
// again.
func TestLostPermitsAreSetAgain(t *testing.T) {
	for name, acquire := range map[string]func(c *holdfast.Client) error{
		"leased": func(c *holdfast.Client) error {
			return kit.ErrOf(c.NewPermitSemaphore("x", holdfast.Permits(1)).Acquire(background, 1, holdfast.Wait(time.Minute)))
		},
		"unleased": func(c *holdfast.Client) error {
			return c.NewUnleasedSemaphore("x", holdfast.Permits(1)).Acquire(background, 1, holdfast.Wait(time.Minute))
		},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, "", 0, func(s *stage) {
				kit.OK(s.T, acquire(s.c)) // it is not given back
				time.AfterFunc(time.Second, func() { kit.NoError(s.T, kit.ErrOf(s.Server.Do("FLUSHALL"))) })
				start := time.Now()
				kit.OK(s.T, acquire(s.other))
				within(s.T, start, time.Second, 5*time.Second)
				kit.OK(s.T, s.c.Close(), s.other.Close())
				s.Do("DEL", "{x}:timeout")
			})
		})
	}
}

// Holds of thousands of permits are renewed apart: Redis serves nobody else meanwhile.
func TestManyPermitsAreRenewedApart(t *testing.T) {
	const holds, most = 2, holdfast.MaxPermitsPerHold
	on(t, "permits", 2*holds*most, func(s *stage) {
		var all []*holdfast.Hold
		for range holds {
			all = append(all, s.acquire(most), s.acquire(1))
		}
		seen := kit.Spy(s.d)
		time.Sleep(21 * time.Second)
		many, single := 0, 0
		for _, args := range seen() {
			switch n := len(strings.Join(args, "")) / 16; { // the ids
			case n > most+100:
				s.T.Errorf("a call for %d permits", n)
			case n >= most:
				many++
			default:
				single++
			}
		}
		if many < 2*holds || single < 2 {
			s.T.Errorf("in 21 s, %d calls for the holds of many permits and %d for the others", many, single)
		}
		for _, h := range all {
			kit.Unlock(s.T, h)
		}
	})
}
