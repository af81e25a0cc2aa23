package hold

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

const shortest = 10 * time.Second

var kept = holdfast.MinHold(shortest)

// freeAt checks when others get the lock, since start.
func (s *stage) freeAt(start time.Time, want time.Duration) {
	s.Helper()
	s.Unlock(s.heldByOther())
	// One who sleeps asks every three seconds at the latest; polling waiters pause less.
	s.within(start, want, want+200*time.Millisecond)
}

// However soon it is unlocked, others get the lock when the shortest hold is over, and
// not much later; however its messages fare.
func TestMinHold(t *testing.T) {
	keeping(t, func(s *stage) {
		for _, held := range []time.Duration{0, 5 * time.Second, 12 * time.Second} {
			start := time.Now()
			h := s.lock(kept)
			time.Sleep(held)
			s.Unlock(h)
			if h.Context().Err() == nil || !h.Deadline().IsZero() {
				s.Error("the hold goes on")
			}
			kit.WantError(s.T, h.Unlock(), holdfast.ErrNotHeld)
			again, err := s.l.TryLock(holdfast.WithOwner(background, h.Owner()))
			if held < shortest {
				kit.WantError(s.T, err, holdfast.ErrLocked)
			} else {
				s.Unlock(s.Must(again, err))
			}
			s.freeAt(start, max(held, shortest))
		}
		for name, fault := range kit.Faults {
			start := time.Now()
			h := s.lock(kept)
			kit.Next(s.d, "retain", fault)
			if err := h.Unlock(); err != nil {
				s.Errorf("%s: %v", name, err)
			}
			s.Unlock(s.heldByOther())
			kit.Took(s.T, time.Since(start), shortest, shortest+7*time.Second, name+": free after %v")
		}
	})
}

// Who waits already is told until when the lock is kept.
func TestMinHoldBesideOneWhoWaits(t *testing.T) {
	keeping(t, func(s *stage) {
		start := time.Now()
		h := s.lock(kept)
		next := kit.Waiting(s.T, s.rival, background)
		time.Sleep(9500 * time.Millisecond)
		s.Unlock(h)
		s.Unlock(<-next)
		s.within(start, shortest, shortest+200*time.Millisecond)
	})
}

// A nested hold keeps the lock for its own time, whichever is unlocked last.
func TestMinHoldNested(t *testing.T) {
	keeping(t, func(s *stage) {
		if !s.Kind.Nests() {
			return
		}
		outer, start := s.lock(), time.Now()
		s.Unlock(s.in(outer.Context(), kept))
		s.WantCount("x", outer.Owner(), 1)
		s.Unlock(outer)
		s.freeAt(start, shortest)
	})
}

// Neither closing the client nor a crash ends it sooner; force does.
func TestMinHoldEnds(t *testing.T) {
	keeping(t, func(s *stage) {
		closed, _ := s.Client()
		start := time.Now()
		_ = s.Must(s.Lock(closed).Lock(background, kept))
		time.Sleep(time.Second)
		kit.OK(s.T, closed.Close())
		s.freeAt(start, shortest)

		crashed, d := s.Client(holdfast.WithLease(3 * time.Second))
		start = time.Now()
		h := s.Must(s.Lock(crashed).Lock(background, kept))
		kit.Away(d)
		s.freeAt(start, shortest)
		kit.WantLost(s.T, h)
		d.SetFaults(nil)
		s.Lost(h)

		s.Unlock(s.lock(holdfast.MinHold(time.Hour)))
		start = time.Now()
		kit.Force(s.T, s.rival)
		s.freeAt(start, 0)
	})
}

// What was kept for a hold that has gone is not kept for an acquire that gave up.
func TestStaleMinHold(t *testing.T) {
	keeping(t, func(s *stage) {
		ctx, cancel := context.WithCancel(s.ctx)
		h := s.in(ctx, holdfast.MinHold(time.Hour))
		kit.Next(s.d, "retain", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		go s.Unlock(h)
		time.Sleep(100 * time.Millisecond)
		failed := s.begin(ctx) // it comes while the release is under way
		time.Sleep(time.Second)
		kit.Every(s.d, "acquire", memdriver.Fault{DelayReply: time.Second})
		s.Do("DEL", "x") // who waits is not told, and asks within a second
		for s.PTTL("x") <= 0 {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		kit.WantError(s.T, (<-failed).Err, context.Canceled)
		time.Sleep(10 * time.Second)
		s.d.SetFaults(nil)
		s.Unlock(s.Must(s.rival.Lock(background, holdfast.Wait(time.Second))))
	})
}

// A hold that is kept cannot be handed over before.
func TestMinHoldDetach(t *testing.T) {
	keeping(t, func(s *stage) {
		h := s.lock(kept)
		kit.WantError(s.T, kit.ErrOf(h.Detach()), holdfast.ErrInvalid)
		s.trusts(h)
		time.Sleep(shortest)
		owner, err := h.Detach()
		kit.OK(s.T, err)
		s.Unlock(s.Must(s.l.Adopt(background, owner)))
	})
}

// Several locks are kept one by one, and a RedLock on every server, also on one that answers later.
func TestMinHoldOfSeveral(t *testing.T) {
	multi := holdfast.NewMultiLock
	type row struct {
		of   func(s *kit.Servers) *holdfast.MultiLock
		keys [][]string // of each server
	}
	rows(t, fake, map[string]row{
		"together": {func(s *kit.Servers) *holdfast.MultiLock { return multi(kit.Mutexes(s.Clients[0], "a", "b")...) }, [][]string{{"a", "b"}}},
		"one by one": {func(s *kit.Servers) *holdfast.MultiLock {
			return multi(s.Clients[0].NewMutex("a"), s.Clients[0].NewMutex("b", holdfast.NonReentrant()))
		}, [][]string{{"a", "b"}}},
		"RedLock":            {func(s *kit.Servers) *holdfast.MultiLock { return s.Redlock("x") }, [][]string{{"x"}, {"x"}, {"x"}}},
		"RedLock in another": {func(s *kit.Servers) *holdfast.MultiLock { return multi(s.Redlock("x")) }, [][]string{{"x"}, {"x"}, {"x"}}},
	}, func(s *stage, row row) {
		of := kit.Several(s.World, 3)
		others := of.Again()
		kit.All(of.Drivers[2], memdriver.Fault{DelayReply: time.Second})
		start := time.Now()
		h := s.Must(row.of(of).Lock(background, kept))
		time.Sleep(1500 * time.Millisecond)
		of.Drivers[2].SetFaults(nil)
		s.Unlock(h)
		for i, keys := range row.keys {
			for _, key := range keys {
				kit.Fails(s.T, holdfast.ErrLocked)(others.Clients[i].NewMutex(key).TryLock(background))
			}
		}
		s.Unlock(s.Must(row.of(others).Lock(background)))
		s.within(start, shortest, shortest+time.Second)
	})
}

// A writer who reads on keeps nothing.
func TestMinHoldOfAWriterWhoReadsOn(t *testing.T) {
	fake(t, func(s *stage) {
		other, _ := s.Client()
		mine, theirs := s.c.NewRWMutex("x"), other.NewRWMutex("x")
		read := s.Must(mine.Downgrade(s.Must(mine.Lock(background, kept))))
		s.Unlock(s.Must(theirs.RLock(background, holdfast.Wait(0))))
		s.Unlock(read)
		s.Unlock(s.Must(theirs.TryLock(background)))
	})
}

// Several locks that are not had are not kept: nobody holds anything more than before.
func TestMinHoldOfSeveralRefused(t *testing.T) {
	fake(t, func(s *stage) {
		long := holdfast.MinHold(time.Minute)
		of := kit.Several(s.World, 3)
		others := of.Again()
		held := []*holdfast.Hold{s.Must(others.Clients[0].NewMutex("x").Lock(background)), s.Must(others.Clients[1].NewMutex("x").Lock(background))}
		a, b := of.Clients[0], of.Clients[2]
		for _, l := range []holdfast.Locker{
			holdfast.NewMultiLock(kit.Mutexes(a, "a", "x")...),
			holdfast.NewMultiLock(a.NewMutex("a", holdfast.NonReentrant()), a.NewMutex("x")),
			of.Redlock("x"),
		} {
			kit.Fails(s.T, holdfast.ErrLocked)(l.TryLock(background, long))
			kit.Fails(s.T, holdfast.ErrLocked)(l.Lock(background, long, holdfast.Wait(time.Second)))
			time.Sleep(time.Second) // it is given back in the background
			s.Unlock(s.Must(others.Clients[0].NewMutex("a").TryLock(background)), s.Must(b.NewMutex("x").TryLock(background)))
		}
		s.Unlock(held...)
	})
}

// What cannot be kept is refused before anything is sent, as one of several locks, too.
func TestMinHoldRefused(t *testing.T) {
	fake(t, func(s *stage) {
		seen, multi := kit.Count(s.d), holdfast.NewMultiLock
		x, r, p := s.l, s.c.NewRWMutex("r").RLocker(), s.c.NewPermitSemaphore("p")
		for i, err := range []error{
			kit.ErrOf(x.TryLock(background, holdfast.MinHold(0))),
			kit.ErrOf(x.TryLock(background, holdfast.MinHold(time.Hour))),
			kit.ErrOf(x.TryLock(background, holdfast.MinHold(2*time.Second), holdfast.FixedLease(time.Second))),
			kit.ErrOf(r.TryLock(background, kept)),
			kit.ErrOf(p.TryAcquire(background, 1, kept)),
			kit.ErrOf(multi(p, x).Lock(background, kept)),
			kit.ErrOf(multi(x, r).TryLock(background, kept)),
		} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				s.Errorf("%d: %v", i, err)
			}
		}
		if n := seen.All(); n > 0 {
			s.Errorf("%d calls were sent", n)
		}
	}, holdfast.WithMaxHold(time.Minute))
}

// It is refused as well if nobody knows so before something is sent, whatever is around it: then what was acquired is given back.
func TestMinHoldRefusedInside(t *testing.T) {
	type around struct{ holdfast.Locker }
	fake(t, func(s *stage) {
		short, _ := s.Client(holdfast.WithMaxHold(time.Second))
		for _, l := range []holdfast.Locker{s.c.NewRWMutex("r").RLocker(), s.c.NewPermitSemaphore("p"), short.NewMutex("b")} {
			kit.Fails(s.T, holdfast.ErrInvalid)(holdfast.NewMultiLock(s.l, around{l}).Lock(background, kept))
			kit.Fails(s.T, holdfast.ErrInvalid)(holdfast.NewMultiLock(around{l}, s.l).Lock(background, kept))
		}
		time.Sleep(time.Second)
		s.Unlock(s.Must(s.l.TryLock(background)))

		outer := s.lock() // less is left of its time
		time.Sleep(50 * time.Second)
		kit.Fails(s.T, holdfast.ErrInvalid)(holdfast.NewMultiLock(s.l, s.c.NewMutex("a")).Lock(outer.Context(), holdfast.MinHold(40*time.Second)))
		s.Unlock(outer)
	}, holdfast.WithMaxHold(time.Minute))
}
