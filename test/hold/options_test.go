package hold

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One who polls listens to nobody, and says nothing when it gives back.
func TestPollingIsSilent(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		holder, _ := w.Client()
		polling := holdfast.Polling(time.Millisecond, 10*time.Millisecond)
		h := kit.Must(t)(holder.NewMutex("x", polling).Lock(background))
		got := make(chan *holdfast.Hold)
		go func() { got <- kit.Must(t)(c.NewMutex("x", polling).Lock(background)) }()
		time.Sleep(500 * time.Millisecond)
		if tries := seen.Of("acquire"); tries < 10 {
			t.Errorf("asked %d times", tries)
		}
		w.WantReply("", "PUBSUB", "CHANNELS", "*x*")
		var messages atomic.Int32
		listener := w.Server.Driver().Listen(func(e driver.Event) {
			if e.Kind == driver.Message {
				messages.Add(1)
			}
		})
		defer listener.Close()
		listener.Subscribe("redisson_lock__channel:{x}")
		synctest.Wait()
		start := time.Now()
		kit.Unlock(t, h)
		next := <-got
		kit.Took(t, time.Since(start), 0, 20*time.Millisecond, "noticed after %v")
		kit.Unlock(t, next)
		synctest.Wait()
		if n := messages.Load(); n > 0 {
			t.Errorf("%d messages", n)
		}
		kit.Unlock(t, kit.Must(t)(holder.NewMutex("x").Lock(background))) // one who does not poll says something
		synctest.Wait()
		if messages.Load() == 0 {
			t.Error("the test does not hear what is said")
		}
	})
}

// Options that have no sense are refused before anything is sent.
func TestOptionsWithoutSense(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		sent := kit.Count(d)
		for i, options := range [][]holdfast.MutexOption{
			{nil},
			{holdfast.Fenced(nil)},
			{holdfast.Fenced(holdfast.TokenTTL(0))},
			{holdfast.Polling(0, 0)},
			{holdfast.Polling(-time.Second, -time.Second)},
			{holdfast.Polling(time.Second, time.Millisecond)},
		} {
			if _, err := c.NewMutex("a", options...).Lock(background); err == nil {
				t.Errorf("options %d are accepted", i)
			}
		}
		if n := sent.Of("acquire"); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// A lease is renewed or it is not.
func TestContradictingLeases(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		fixed, renewed := holdfast.FixedLease(time.Second), holdfast.RenewedLease(2*time.Second)
		for _, l := range []holdfast.Locker{c.NewMutex("x"), c.NewRWMutex("x"), c.NewRWMutex("x").RLocker(), c.NewPermitSemaphore("x"), holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("{x}2"))} {
			for _, options := range [][]holdfast.TryOption{{fixed, renewed}, {renewed, fixed}} {
				kit.Fails(t, holdfast.ErrInvalid)(l.TryLock(background, options...))
			}
		}
		h := kit.Must(t)(c.NewMutex("x").TryLock(background, renewed, holdfast.RenewedLease(3*time.Second))) // the last of one kind counts
		kit.Unlock(t, h)
	})
}
