package multi

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestShutdownEndsAMultiLockThatWaitsElsewhere: what it has acquired of the client is given back, and its call says why. One that is nested in a
// hold of the client goes on, as that does.
func TestShutdownEndsAMultiLockThatWaitsElsewhere(t *testing.T) {
	fake(t, 2, func(s *stage) {
		outer := s.lock(s.c.NewMutex("a"))
		theirs := s.lock(s.Clients[1].NewMutex("b"))
		inside := begin(holdfast.NewMultiLock(s.c.NewMutex("a"), s.Clients[1].NewMutex("b")), outer.Context())
		beside := begin(holdfast.NewMultiLock(s.c.NewMutex("0"), s.Clients[1].NewMutex("b")), background)
		time.Sleep(time.Second)
		s.w.WantReply("1", "EXISTS", "0")
		start := time.Now()
		done := kit.BeginShutdown(s.c)
		select {
		case got := <-beside:
			kit.WantError(s.T, got.Err, holdfast.ErrClosed)
			s.within(start, 0)
		case <-time.After(time.Minute):
			s.Fatal("it waits for what Shutdown will never see given back")
		}
		s.w.WantReply("0", "EXISTS", "0")
		s.unlock(theirs)
		got := <-inside
		kit.OK(s.T, got.Err)
		s.unlock(got.Hold)
		s.unlock(outer)
		kit.OK(s.T, <-done)
	})
}

// TestWaitThatEndsAmidATry: one name on two servers is asked for again and again. Whose wait ends while Redis is asked is told who has
// the lock, as the try before was.
func TestWaitThatEndsAmidATry(t *testing.T) {
	fake(t, 2, func(s *stage) {
		theirs := s.lock(s.Again().Clients[1].NewMutex("a"))
		for _, d := range s.Drivers {
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayRequest: 300 * time.Millisecond} })
		}
		for range 20 {
			_, err := holdfast.NewMultiLock(s.c.NewMutex("a"), s.Clients[1].NewMutex("a")).Lock(background, holdfast.Wait(2*time.Second))
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.Holder != theirs.Owner() {
				s.Errorf("%v", err)
			}
		}
		for _, d := range s.Drivers {
			d.SetFaults(nil)
		}
		s.unlock(theirs)
	})
}
