package handover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Readers of one process share what Redis has granted once: those who wait behind a writer, and
// those who come within the slice. The last one gives it back.
func TestReadersShare(t *testing.T) {
	fake(t, func(s *stage) {
		writer := s.Must(s.rw.Lock(background))
		var waiters []<-chan *holdfast.Hold
		for range 5 {
			waiters = append(waiters, s.waitsToRead())
		}
		calls := kit.Count(s.d)
		s.Unlock(writer)
		var readers []*holdfast.Hold
		for _, waiter := range waiters {
			readers = append(readers, <-waiter)
		}
		readers = append(readers, s.Must(s.rw.TryRLock(background)))
		if calls.All() != 1 {
			s.Errorf("%d calls for a release and %d readers", calls.All(), len(readers))
		}
		kit.Fails(s.T, holdfast.ErrLocked)(s.rw.TryLock(background))

		// Each has an end of its own, and after it the owner is not its any more.
		s.Unlock(readers[0])
		if err := readers[0].Unlock(); !errors.Is(err, holdfast.ErrNotHeld) || readers[0].Context().Err() == nil || readers[1].Context().Err() != nil {
			s.Error(err)
		}
		if owner := readers[0].Owner(); !owner.IsZero() {
			s.Errorf("who has left has an owner: %v", owner)
		}

		// Nested holds are counted, beside the one that is shared.
		inner := s.Must(s.rw.RLock(readers[1].Context()))
		if state, err := s.rw.Inspect(background); err != nil || state.Count(inner.Owner()) != 2 {
			s.Error(state, err)
		}
		s.Unlock(readers[1:]...)
		s.last(inner)
	})
}

// One who comes within the slice joins who reads, but not a hold with another lease, or of whose lease too little is left, nor one whose
// owner is known, or was: who knows it would be taken for one who reads.
func TestWhoJoins(t *testing.T) {
	for name, test := range map[string]struct {
		lease     time.Duration // of the client; 0: the default
		meanwhile func(s *stage, a *holdfast.Hold)
		options   []holdfast.TryOption
		joins     bool
	}{
		"at once":     {joins: true},
		"later":       {meanwhile: func(*stage, *holdfast.Hold) { time.Sleep(1100 * time.Microsecond) }},
		"other lease": {options: []holdfast.TryOption{holdfast.RenewedLease(25 * time.Second)}},
		"short lease": {lease: 10 * time.Millisecond}, // 1 % and 2 ms are off, and 0.9 ms have passed
		"known":       {meanwhile: func(_ *stage, a *holdfast.Hold) { a.Owner() }},
		"was nested":  {meanwhile: func(s *stage, a *holdfast.Hold) { s.Unlock(s.Must(s.rw.RLock(a.Context()))) }},
		"is nested": {meanwhile: func(s *stage, a *holdfast.Hold) {
			inner := s.Must(s.rw.RLock(a.Context()))
			time.AfterFunc(time.Second/2, func() { s.Unlock(inner) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.lease == 0 {
				test.lease = holdfast.DefaultLease
			}
			fake(t, func(s *stage) {
				a := s.read()
				time.Sleep(900 * time.Microsecond)
				if test.meanwhile != nil {
					test.meanwhile(s, a)
				}
				calls := kit.Count(s.d)
				b := s.Must(s.rw.TryRLock(background, test.options...))
				if joined := calls.All() == 0; joined != test.joins {
					s.Errorf("it has joined: %v", joined)
				}
				time.Sleep(time.Second)
				s.Unlock(a)
				s.last(b)
			}, holdfast.WithLease(test.lease))
		})
	}
}

// One who waits with a lease of its own is not let in by another reader, and one who comes does not join.
func TestReadersOfOtherLeasesDoNotShare(t *testing.T) {
	fake(t, func(s *stage) {
		writer := s.Must(s.rw.Lock(background))
		first, longer := s.waitsToRead(), s.waitsToRead(holdfast.RenewedLease(time.Minute))
		time.Sleep(time.Second)
		s.Unlock(writer)
		released := time.Now()
		a, b := <-first, <-longer
		s.within(released, 10*time.Millisecond) // a round trip costs nothing here
		late := s.Must(s.rw.TryRLock(background, holdfast.RenewedLease(2*time.Minute)))
		if time.Until(b.Deadline()) < 55*time.Second || time.Until(late.Deadline()) < 110*time.Second {
			s.Errorf("to be trusted for %v and %v", time.Until(b.Deadline()), time.Until(late.Deadline()))
		}
		if a.Owner() == b.Owner() || b.Owner() == late.Owner() {
			s.Error("they share")
		}
		s.Unlock(a, b, late)
	})
}

// A reader that comes without waiting lets those in who wait, and keeps none of them out.
func TestTryRLockLetsIn(t *testing.T) {
	fake(t, func(s *stage) {
		writer := s.Must(s.otherRW.Lock(background))
		fixed, plain := s.waitsToRead(holdfast.FixedLease(time.Minute)), s.waitsToRead()
		time.Sleep(100 * time.Millisecond)
		s.d.LoseMessages(true) // or the first one asks before it
		s.Unlock(writer)
		comes := s.Must(s.rw.TryRLock(background))
		start := time.Now()
		s.d.LoseMessages(false)
		s.Unlock(<-fixed, <-plain)
		s.within(start, 10*time.Millisecond)
		s.Unlock(comes)
	})
}

// Who has little time does not spend it on waiting for another reader to leave.
func TestReaderInAHurry(t *testing.T) {
	fake(t, func(s *stage) {
		for _, byContext := range []bool{false, true} {
			a, ctx := s.read(), background
			time.Sleep(5 * time.Millisecond) // too late to join
			options := []holdfast.LockOption{holdfast.Wait(time.Millisecond)}
			if byContext {
				short, cancel := context.WithTimeout(background, time.Millisecond)
				defer cancel()
				ctx, options = short, nil
			}
			s.Unlock(s.Must(s.rw.RLock(ctx, options...)), a)
		}
	})
}

// A hold that is shared is detached when the others have left, and not before.
func TestSharedAndDetached(t *testing.T) {
	fake(t, func(s *stage) {
		a, b := s.read(), s.read()
		_, err := a.Detach()
		kit.WantError(s.T, err, holdfast.ErrReentrant)
		time.AfterFunc(time.Second, func() { s.Unlock(b) })
		owner, err := a.Detach()
		kit.OK(s.T, err)
		s.Unlock(s.Must(s.rw.RLocker().Adopt(background, owner)))
	})
}

// What is detached is joined by nobody while its holder waits for the others to leave.
func TestDetachedIsNotShared(t *testing.T) {
	fake(t, func(s *stage) {
		a, b := s.read(), s.read()
		var owner holdfast.Owner
		detached := kit.Aside(func() (err error) {
			owner, err = a.Detach()
			return err
		})
		late := s.Must(s.rw.TryRLock(background))
		s.Unlock(b)
		kit.OK(s.T, <-detached)
		if late.Owner() == owner {
			s.Error("one has joined what is being detached")
		}
		s.Unlock(late, s.Must(s.rw.RLocker().Adopt(background, owner)))
	})
}

// Those who share a hold nest in it, and leave, while another one waits in Detach for them to leave.
func TestNestedBesideDetachOfShared(t *testing.T) {
	fake(t, func(s *stage) {
		a, b := s.read(), s.read()
		inner := s.Must(s.rw.TryRLock(b.Context()))
		var owner holdfast.Owner
		detached := kit.Aside(func() (err error) {
			owner, err = a.Detach()
			return err
		})
		time.Sleep(time.Millisecond)
		start := time.Now()
		s.Unlock(inner, s.Must(s.rw.TryRLock(b.Context())), b)
		kit.OK(s.T, <-detached)
		s.within(start, 100*time.Millisecond)
		s.Unlock(s.Must(s.rw.RLocker().Adopt(background, owner)))
	})
}

// Who has left, or lost, what is shared hears so from Detach, at once.
func TestLeftAndDetached(t *testing.T) {
	fake(t, func(s *stage) {
		a, b := s.read(), s.read()
		s.Unlock(a)
		start := time.Now()
		_, err := a.Detach()
		kit.WantError(s.T, err, holdfast.ErrNotHeld)
		kit.Force(s.T, s.rw.RLocker())
		<-b.Context().Done()
		_, err = b.Detach()
		kit.WantError(s.T, err, holdfast.ErrLost)
		// To wait for others, or for Redis, would take as long as the timeout of 3 s.
		s.within(start, time.Second)
	})
}

// Who has left others reading has no owner any more, whatever one of them has done with the hold.
func TestLeftBesideExtended(t *testing.T) {
	var handed []bool
	hooks := holdfast.Hooks{OnRelease: func(_ context.Context, e holdfast.Event) { handed = append(handed, e.HandedOver) }}
	fake(t, func(s *stage) {
		a, b := s.read(), s.read()
		kit.OK(s.T, a.Extend(background, time.Minute))
		calls := kit.Count(s.d)
		s.Unlock(b)
		if owner := b.Owner(); !owner.IsZero() || calls.All() > 0 {
			s.Errorf("it has %v, after %d calls", owner, calls.All())
		}
		s.Unlock(a)
		if len(handed) != 2 || !handed[0] || handed[1] { // the last one has left it to nobody
			s.Errorf("handed over: %v", handed)
		}
	}, holdfast.WithHooks(hooks))
}
