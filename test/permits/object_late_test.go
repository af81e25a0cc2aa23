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
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.Once(d, "drain", memdriver.Fault{DelayRequest: 2100 * time.Millisecond})
		time.AfterFunc(2050*time.Millisecond, func() { w.Do("SET", "x", "5") })
		n, err := c.NewUnleasedSemaphore("x").Drain(background)
		if n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		time.Sleep(5 * time.Second)
		w.WantReply("5", "GET", "x")
		w.Do("DEL", "x")
		time.Sleep(2 * time.Minute)
	})
}

// A delete waits for an earlier send no longer than its caller does. It says so, since the send may still arrive.
func TestDeleteEndsWithItsContext(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		w.Server.SetClock(-time.Minute)
		c, d := w.Client()
		kit.Once(d, "delete", memdriver.Fault{DelayRequest: 20 * time.Second})
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(2050*time.Millisecond, cancel)
		start := time.Now()
		_, err := c.NewPermitSemaphore("x").Delete(ctx)
		var backend *holdfast.BackendError
		within(t, start, 0, 2060*time.Millisecond)
		if !errors.As(err, &backend) || !backend.MayHaveRun || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
	})
}

// Nor for longer than the client's timeout.
func TestDeleteIsBounded(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		w.Server.SetClock(-time.Hour)
		c, d := w.Client()
		kit.Once(d, "delete", memdriver.Fault{LoseRequest: true})
		start := time.Now()
		_, err := c.NewPermitSemaphore("x").Delete(background)
		var backend *holdfast.BackendError
		within(t, start, 0, 2*holdfast.DefaultTimeout)
		if !errors.As(err, &backend) || !backend.MayHaveRun {
			t.Errorf("%v", err)
		}
	})
}

func TestCloseDuringDelete(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithTimeout(300 * time.Millisecond))
		kit.Once(d, "delete", memdriver.Fault{DelayRequest: time.Minute})
		returned := make(chan error)
		go func() {
			_, err := c.NewPermitSemaphore("x").Delete(background)
			returned <- err
		}()
		time.Sleep(105 * time.Millisecond)
		start := time.Now()
		kit.OK(t, c.Close())
		within(t, start, 0, 50*time.Millisecond)
		kit.WantError(t, <-returned, holdfast.ErrClosed)
		time.Sleep(2 * time.Minute)
	})
}

// Holders of what is deleted are told before its caller waits for an earlier send.
func TestDeleteTellsHoldersFirst(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewPermitSemaphore("x")
		kit.OK(t, s.SetPermits(background, 1))
		h := kit.Must(t)(s.Acquire(background, 1, holdfast.FixedLease(5*time.Minute)))
		kit.Once(d, "delete", memdriver.Fault{LoseRequest: true})
		returned := make(chan error)
		go func() {
			_, err := s.Delete(background)
			returned <- err
		}()
		time.Sleep(2110 * time.Millisecond) // its second send was answered 110 ms ago
		if h.Context().Err() == nil {
			t.Error("its holder was not told")
		}
		kit.OK(t, <-returned)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		time.Sleep(3 * time.Minute)
	})
}

// That a client closes while it sets permits again is no failure of Redis.
func TestSetAgainWhileClosing(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) { t.Errorf("OnError: %v", e.Err) }}))
		s := c.NewUnleasedSemaphore("x", holdfast.Permits(3))
		kit.OK(t, s.Acquire(background, 1))
		w.Do("DEL", "x")
		kit.Once(d, "set", memdriver.Fault{DelayRequest: time.Second})
		kit.WantError(t, s.TryAcquire(background, 1), holdfast.ErrLocked)
		kit.OK(t, c.Close())
		time.Sleep(3 * time.Minute)
		w.Do("DEL", "x")
	})
}

// Who gives up a call that is under way is told that: Redis has not failed. Whether it has its effect nobody knows.
func TestGivenUpUnderWay(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		l := c.NewLatch("x")
		kit.Once(d, "set", memdriver.Fault{LoseReply: true})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		set, err := l.TrySetCount(ctx, 3)
		var backend *holdfast.BackendError
		if kit.WantError(t, err, context.DeadlineExceeded); set || errors.As(err, &backend) {
			t.Errorf("%v, %v", set, err)
		}
		w.WantReply("3", "GET", "x")
		_, err = l.Delete(background)
		kit.OK(t, err)
	})
}
