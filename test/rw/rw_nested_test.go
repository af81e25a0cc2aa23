package rw

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who writes may read as well. If Redis does not know the write hold any more, and nobody here has heard of that
// yet, a read hold is not granted in silence: see nesting in internal/engine/acquire.go.

// TestReadNestedInALostWrite: by every way in which the owner of the write hold may be said, also while the client
// shuts down.
func TestReadNestedInALostWrite(t *testing.T) {
	alone := func(s *stage) *holdfast.Hold { return s.lock(s.m) }
	read := func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) { return s.m.RLock(write.Context()) }
	for name, row := range map[string]struct {
		write func(s *stage) *holdfast.Hold
		read  func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error)
	}{
		"under its context": {alone, read},
		"beside its context": {alone, func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) {
			return s.m.RLock(context.WithoutCancel(write.Context()))
		}},
		"by hand": {alone, func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) {
			return s.m.RLock(holdfast.WithOwner(background, write.Owner()))
		}},
		"downgraded": {alone, func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) {
			return s.m.Downgrade(write)
		}},
		"under a multi-lock's": {func(s *stage) *holdfast.Hold {
			return s.must(holdfast.NewMultiLock(s.m, s.Mutex(s.c, "y")).Lock(background))
		}, read},
	} {
		for _, stopping := range []bool{false, true} {
			what := map[bool]string{true: "shutting down"}[stopping]
			t.Run(name+"/"+what, func(t *testing.T) {
				fake(t, func(s *stage) {
					kept := s.must(s.Mutex(s.c, "z").Lock(background))
					write := row.write(s)
					var over <-chan error
					if stopping {
						over = kit.BeginShutdown(s.c)
						synctest.Wait()
					}
					s.Do("DEL", "x")
					kit.Fails(s.T, holdfast.ErrLost)(row.read(s, write))
					kit.WantLost(s.T, write)
					kit.WantError(s.T, write.Unlock(), holdfast.ErrLost)
					s.unlock(kept)
					if stopping {
						kit.OK(s.T, <-over)
					}
				})
			})
		}
	}
}

// TestSecondReadNestedInALostWrite: the first read stands.
func TestSecondReadNestedInALostWrite(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		read := s.nested(write)
		s.Do("HDEL", "x", write.Owner().String()+":write")
		s.Do("HSET", "x", "mode", "read")
		kit.Fails(s.T, holdfast.ErrLost)(s.m.RLock(write.Context()))
		kit.WantError(s.T, write.Unlock(), holdfast.ErrLost)
		s.unlock(read)
	})
}

// TestReadWhileTheWriteHoldIsGivenBack is granted before that is: no other writer comes between the two. The read was
// nested in the write, and ends when WithMaxHold would have ended that.
func TestReadWhileTheWriteHoldIsGivenBack(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		time.Sleep(9 * time.Second)
		kit.Once(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		read := kit.Begin(func() (*holdfast.Hold, error) { return s.m.RLock(context.WithoutCancel(write.Context())) })
		theirs := kit.Begin(func() (*holdfast.Hold, error) { return s.other.Lock(background) })
		s.unlock(write)
		got := <-read
		kit.OK(s.T, got.Err, got.Hold.Context().Err())
		select {
		case <-theirs:
			s.Error("another writes beside the read")
		default:
		}
		s.lostAfter(got.Hold, time.Now(), 0, time.Second)
		s.unlock((<-theirs).Hold)
	}, holdfast.WithMaxHold(10*time.Second))
}

// TestReadBehindAnExpiredRead in one write hold: that stands, whatever has become of what was read in it.
func TestReadBehindAnExpiredRead(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		read := s.nested(write, holdfast.FixedLease(500*time.Millisecond))
		time.Sleep(400 * time.Millisecond)
		kit.Once(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		next := kit.Begin(func() (*holdfast.Hold, error) { return s.m.RLock(write.Context()) })
		s.unlock(read)
		kit.WantError(s.T, (<-next).Err, holdfast.ErrLost)
		s.unlock(s.nested(write), write)
	})
}

// TestOneReleaseAgain: however often it is asked for what Redis does not take back, it is tried again one at a time.
func TestOneReleaseAgain(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		var reads []*holdfast.Hold
		for range 5 {
			reads = append(reads, s.nested(write))
		}
		var releases atomic.Int32
		s.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "release" {
				releases.Add(1)
				return refusing("NOPERM")
			}
			return f
		})
		for _, read := range reads {
			s.refused(read)
		}
		before := releases.Load()
		time.Sleep(time.Minute)
		if n := releases.Load() - before; n < 3 || n > 12 { // of 10 s each, after those that Unlock leaves
			s.Errorf("%d releases in a minute", n)
		}
		s.d.SetFaults(nil)
		time.Sleep(20 * time.Second)
		s.unlock(write)
	})
}
