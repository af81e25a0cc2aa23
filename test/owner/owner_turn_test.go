package owner

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One owner in several goroutines: its calls have their turn one after another, and one unlocks while the Lock of another is under
// way. What a call was to be nested in may end before its turn comes. What Unlock and Lock say is about the hold that they were
// called for.

var reset = memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)}

// TestTryLockOfABusyOwnerInTime: it has its turn when hardly any time is left.
func TestTryLockOfABusyOwnerInTime(t *testing.T) {
	fake(t, func(s *stage) {
		theirs := s.heldByOther()
		waiting, cancel := context.WithCancel(s.own)
		first := s.begin(waiting)
		time.AfterFunc(5900*time.Millisecond, func() {
			kit.Away(s.d)
			cancel()
		})
		start := time.Now()
		if _, err := s.x.TryLock(s.own); err == nil {
			s.Error("no error")
		}
		s.within(start, 6*time.Second)
		s.failed(first, context.Canceled)
		s.d.SetFaults(nil)
		s.Unlock(theirs)
	})
}

// TestMultiLockLeavesTheOthersToUnlock: while it waits for one of its locks, another one can be given back, though an
// attempt to acquire that may not be answered yet.
func TestMultiLockLeavesTheOthersToUnlock(t *testing.T) {
	for _, fault := range []memdriver.Fault{{}, reset} {
		fake(t, func(s *stage) {
			ctx, cancel := context.WithCancel(s.own)
			y := s.c.NewMutex("y")
			theirs := s.Must(s.other.NewMutex("y").Lock(background))
			kit.Next(s.d, "acquire", fault)
			x := s.lock(ctx)
			two := kit.Begin(func() (*holdfast.Hold, error) { return y.Lock(ctx) })
			both := kit.Begin(func() (*holdfast.Hold, error) { return holdfast.NewMultiLock(s.x, y).TryLock(ctx) })
			start := time.Now()
			s.Unlock(x)
			s.within(start, time.Second)
			cancel()
			<-two
			<-both
			s.Unlock(theirs)
		})
	}
}

// TestUnlockBesideALaterLoss: the hold that comes after it is lost, while it is being given back.
func TestUnlockBesideALaterLoss(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		one := s.lock(s.own)
		var acquires, releases atomic.Int32
		s.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			switch name := call.Script.Name(); {
			case name == "acquire" && acquires.Add(1) == 1:
				f.DelayReply = 500 * time.Millisecond
			case name == "release" && releases.Add(1) == 1:
				f.LoseReply = true
			}
			return f
		})
		two := s.begin(s.own, holdfast.FixedLease(time.Second))
		time.Sleep(100 * time.Millisecond)
		s.Unlock(one)
		later := s.got(two)
		kit.WantLost(s.T, later)
		s.Lost(later)
		time.Sleep(time.Minute)
	})
}

// TestUnlockOfWhatWasTaken: the lock was taken by force, and what became of a nested Lock before that is not known.
func TestUnlockOfWhatWasTaken(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		one := s.lock(s.own)
		kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true})
		ctx, cancel := context.WithCancel(one.Context())
		two := s.begin(ctx)
		cancel()
		s.failed(two, context.Canceled)
		kit.Force(s.T, s.Lock(s.other))
		s.Lost(one)
	})
}

// TestUnlockOfWhatWasTakenBesideTheNextHold: who finds that it was taken is the owner's next Lock, which begins the next hold.
func TestUnlockOfWhatWasTakenBesideTheNextHold(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		one := s.lock(s.own)
		kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 500 * time.Millisecond})
		two, three := s.begin(s.own), s.begin(s.own)
		kit.Force(s.T, s.Lock(s.other))
		time.Sleep(10 * time.Millisecond)
		s.Lost(one)
		s.failed(two, holdfast.ErrLost)
		s.Unlock(s.got(three))
	})
}

// TestUnlockBehindAReleaseThatWasNotSent: so nothing but force can have taken the lock.
func TestUnlockBehindAReleaseThatWasNotSent(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		kit.Next(s.d, "acquire", reset)
		one := s.lock(s.own)
		// Detach waits for the attempt that was not answered. Nothing else is asked as that owner meanwhile.
		detached := kit.Aside(func() error { _, err := one.Detach(); return err })
		two := s.begin(s.own, holdfast.Wait(3*time.Second))
		kit.Force(s.T, s.Lock(s.other))
		kit.Every(s.d, "release", memdriver.Fault{Refuse: errors.New("connection refused")})
		unlocked := kit.Aside(one.Unlock)
		s.failed(two) // it gives nothing back, since Redis is away
		s.d.SetFaults(nil)
		kit.WantError(s.T, <-unlocked, holdfast.ErrLost)
		<-detached
	})
}

// TestLockInAHoldThatHasExpired: the hold that it is to be nested in was unlocked, and its lease has run out, before it arrives. By
// hand that is a loss to the Lock, though none to the hold. Under the context of the hold, which has ended, it is none.
func TestLockInAHoldThatHasExpired(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		for _, byHand := range []bool{true, false} {
			one := s.lock(s.own, holdfast.FixedLease(time.Second))
			ctx := s.own
			if !byHand {
				ctx = context.WithoutCancel(one.Context())
			}
			time.Sleep(900 * time.Millisecond)
			kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
			two := s.begin(ctx)
			s.Unlock(one)
			if err := s.failed(two, holdfast.ErrNotHeld); errors.Is(err, holdfast.ErrLost) != byHand {
				s.Errorf("by hand %v: %v", byHand, err)
			}
			s.Unlock(s.lock(s.own))
		}
	})
}

// TestLockWhoseOuterHoldEndsBeforeItsTurn: by hand it would be acquired, since its owner has the lock still.
func TestLockWhoseOuterHoldEndsBeforeItsTurn(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		outer := s.lock(background)
		ctx := context.WithoutCancel(outer.Context())
		kit.Next(s.d, "acquire", memdriver.Fault{DelayReply: 500 * time.Millisecond})
		first := s.begin(ctx)
		second := kit.Begin(func() (*holdfast.Hold, error) { return s.x.TryLock(ctx) })
		s.Unlock(outer)
		inner := s.got(first)
		if err := s.failed(second, holdfast.ErrNotHeld); errors.Is(err, holdfast.ErrLost) {
			s.Errorf("TryLock: %v", err)
		}
		s.Unlock(inner)
	})
}

// TestMaxHoldOfALockInOneThatEnded: its owner has had the lock all the time.
func TestMaxHoldOfALockInOneThatEnded(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		slow := memdriver.Fault{DelayRequest: 100 * time.Millisecond}
		for _, step := range []struct {
			asked, reached time.Duration
			fault          memdriver.Fault
		}{
			{5 * time.Second, 5 * time.Second, slow},
			{9 * time.Second, 9 * time.Second, slow},
			{6 * time.Second, 9 * time.Second, slow},                             // with less left than it asked for
			{6 * time.Second, 9 * time.Second, memdriver.Fault{LoseReply: true}}, // and nothing left when it hears of that
		} {
			s := newStage(t, w, []holdfast.ClientOption{holdfast.WithMaxHold(10 * time.Second)})
			one := s.lock(s.own)
			start := time.Now()
			time.Sleep(step.asked)
			kit.NextFrom(s.d, "acquire", start.Add(step.reached), step.fault)
			two := s.begin(s.own)
			s.Unlock(one)
			got := <-two
			err := got.Err
			if err == nil {
				<-got.Hold.Context().Done()
				kit.Took(t, time.Since(start), 9*time.Second, 10*time.Second, "held for %v")
				err = got.Hold.Unlock()
			}
			lost := new(holdfast.LostError)
			if !errors.As(err, &lost) || lost.Reason != holdfast.LostMaxHoldOver || (got.Err != nil) != step.fault.LoseReply {
				t.Errorf("%+v: Lock: %v; Unlock: %v", step, got.Err, err)
			}
		}
	})
}

// TestCountsOfOneOwner: a Lock that was not answered at once, an Unlock behind it that is sent twice, and another Lock.
func TestCountsOfOneOwner(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		h := s.lock(s.own)
		kit.Next(s.d, "acquire", memdriver.Fault{DelayReply: time.Second})
		first := s.begin(s.own)  // it has the turn
		second := s.begin(s.own) // it is next
		gone := kit.Aside(h.Unlock)
		kit.Next(s.d, "release", memdriver.Fault{DelayRequest: 2200 * time.Millisecond})
		one, two := s.got(first), s.got(second)
		kit.OK(s.T, <-gone)
		s.WantCount("x", one.Owner(), 2)
		time.Sleep(time.Second) // the first send of the Unlock arrives
		s.WantCount("x", one.Owner(), 2)
		s.Unlock(s.Must(s.x.TryLock(s.own)), one, two)
		time.Sleep(time.Minute)
	})
}

// TestErrorBehindAnEarlierCallOfTheOwner: a call that has waited in vain returns what the earlier one was refused with, or says
// that an Unlock is not answered.
func TestErrorBehindAnEarlierCallOfTheOwner(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		theirs := s.heldByOther()
		waiting, cancel := context.WithCancel(s.own)
		first := s.begin(waiting)
		for _, options := range [][]holdfast.LockOption{{holdfast.Wait(0)}, {holdfast.Wait(time.Second)}} {
			_, err := s.x.Lock(s.own, options...)
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.Holder != theirs.Owner() {
				s.Errorf("behind a Lock that waits: %v", err)
			}
		}
		cancel()
		s.failed(first, context.Canceled)
		s.Unlock(theirs)

		h := s.lock(s.own)
		kit.Every(s.d, "release", kit.LostRequest)
		unlocked := kit.Aside(h.Unlock)
		_, err := s.x.Lock(s.own, holdfast.Wait(time.Second))
		kit.WantBackend(s.T, "behind an Unlock that is not answered", err, "an earlier call of its owner has no answer yet: Redis did not answer in time")
		s.d.SetFaults(nil)
		kit.OK(s.T, <-unlocked)
	})
}

// TestErrorOfASilentRedisBehindARefusal: the earlier call was refused, and Redis falls silent when the next ones ask. That is what
// they say, and not that another holds the lock, who has unlocked it since.
func TestErrorOfASilentRedisBehindARefusal(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		theirs := s.heldByOther()
		first := s.begin(s.own, holdfast.Wait(time.Second))
		time.Sleep(950 * time.Millisecond)
		kit.Every(s.d, "acquire", kit.LostRequest)
		s.d.LoseMessages(s.Kind.ByMessage()) // or no call would be needed
		s.Unlock(theirs)
		s.failed(first, holdfast.ErrLocked)
		// The first one is so short that a refusal of its own would hide a silence of Redis. 0: TryLock.
		for _, wait := range slices.Repeat([]time.Duration{50 * time.Millisecond, 0, time.Second, 3 * time.Second}, 3) {
			if _, err := s.x.Lock(s.own, holdfast.Wait(wait)); !errors.As(err, new(*holdfast.BackendError)) || errors.Is(err, holdfast.ErrLocked) {
				s.Errorf("with a wait of %v: %v", wait, err)
			}
		}
		s.d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}
