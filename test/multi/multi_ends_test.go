package multi

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
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
		s.WantReply("1", "EXISTS", "0")
		start := time.Now()
		done := kit.BeginShutdown(s.c)
		select {
		case got := <-beside:
			kit.WantError(s.T, got.Err, holdfast.ErrClosed)
			s.within(start, 0)
		case <-time.After(time.Minute):
			s.Fatal("it waits for what Shutdown will never see given back")
		}
		s.WantReply("0", "EXISTS", "0")
		time.Sleep(time.Millisecond) // until the nested one would have ended, too
		s.Unlock(theirs)
		got := <-inside
		kit.OK(s.T, got.Err)
		s.Unlock(got.Hold)
		s.Unlock(outer)
		kit.OK(s.T, <-done)
	})
}
