package permits

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Deleting, draining and setting semaphores, while an earlier send of the same call is still on its way.

// A drain that found nothing takes nothing from what is made later.
func TestDrainThatComesLate(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		kit.Next(s.d, "drain", memdriver.Fault{DelayRequest: 2100 * time.Millisecond})
		time.AfterFunc(2050*time.Millisecond, func() { kit.NoError(s.T, kit.ErrOf(s.Server.Do("SET", "x", "5"))) })
		want(s.T, 0)(s.semaphore.Drain(background))
		time.Sleep(5 * time.Second)
		s.WantReply("5", "GET", "x")
	})
}

// A delete waits for an earlier send no longer than its caller does, nor for longer than the client's timeout. It says so, since the
// send may still arrive.
func TestDeleteIsBounded(t *testing.T) {
	for name, row := range map[string]struct {
		clock     time.Duration // the server's
		fault     memdriver.Fault
		cancelled time.Duration
		most      time.Duration
	}{
		"by its context": {-time.Minute, memdriver.Fault{DelayRequest: 20 * time.Second}, 2050 * time.Millisecond, 2060 * time.Millisecond},
		"by its timeout": {-time.Hour, memdriver.Fault{LoseRequest: true}, time.Hour, 2 * holdfast.DefaultTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, "", 0, func(s *stage) {
				s.Server.SetClock(row.clock)
				kit.Next(s.d, "delete", row.fault)
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				defer time.AfterFunc(row.cancelled, cancel).Stop()
				start := time.Now()
				_, err := s.permits.Delete(ctx)
				within(s.T, start, 0, row.most)
				if wantBackend(s.T, err); errors.Is(err, context.Canceled) != (ctx.Err() != nil) {
					s.T.Errorf("%v", err)
				}
			})
		})
	}
}

func TestCloseDuringDelete(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		c, d := s.Client(holdfast.WithTimeout(300 * time.Millisecond))
		kit.Next(d, "delete", memdriver.Fault{DelayRequest: time.Minute})
		gone := refusing(s.T, func() error { return kit.ErrOf(c.NewPermitSemaphore("x").Delete(background)) }, holdfast.ErrClosed)
		time.Sleep(105 * time.Millisecond)
		start := time.Now()
		kit.OK(s.T, c.Close())
		within(s.T, start, 0, 50*time.Millisecond)
		gone()
	})
}

// Holders of what is deleted are told before its caller waits for an earlier send; those of other clients as of force.
func TestDeleteTellsHoldersFirst(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		kit.OK(s.T, s.permits.SetPermits(background, 2))
		own := s.acquire(1, holdfast.FixedLease(5*time.Minute))
		other := kit.Must(s.T)(s.theirs.Lock(background, holdfast.FixedLease(time.Hour)))
		time.Sleep(1100 * time.Millisecond)
		kit.Next(s.d, "delete", memdriver.Fault{LoseRequest: true})
		start := time.Now()
		returned := kit.Aside(func() error { return kit.ErrOf(s.permits.Delete(background)) })
		lostWithin(s.T, other, start, 0, 2100*time.Millisecond) // its second send was answered 100 ms ago
		time.Sleep(10 * time.Millisecond)
		kit.WantLost(s.T, own)
		kit.OK(s.T, <-returned)
		kit.WantError(s.T, own.Unlock(), holdfast.ErrLost)
	})
}

// That a client closes while it sets permits again is no failure of Redis.
func TestSetAgainWhileClosing(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		c, d := s.Client(holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) { s.T.Errorf("OnError: %v", e.Err) }}))
		u := c.NewUnleasedSemaphore("x", holdfast.Permits(3))
		kit.OK(s.T, u.Acquire(background, 1))
		s.Do("DEL", "x")
		kit.Next(d, "set", memdriver.Fault{DelayRequest: time.Second})
		kit.WantError(s.T, u.TryAcquire(background, 1), holdfast.ErrLocked)
		kit.OK(s.T, c.Close())
		time.Sleep(3 * time.Minute)
	})
}

// TestGivenUpUnderWay: the caller's deadline ends a call that Redis has not answered. It may take effect.
func TestGivenUpUnderWay(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		kit.Next(s.d, "set", memdriver.Fault{LoseReply: true})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		set, err := s.latch.TrySetCount(ctx, 3)
		var backend *holdfast.BackendError
		if kit.WantError(s.T, err, context.DeadlineExceeded); set || !errors.As(err, &backend) || !backend.MayHaveRun {
			s.T.Errorf("%v, %v", set, err)
		}
		s.WantReply("3", "GET", "x")
		kit.OK(s.T, kit.ErrOf(s.latch.Delete(background)))
	})
}
