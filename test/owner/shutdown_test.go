package owner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// shutdown begins Shutdown, and returns what waits for its end.
func (s *stage) shutdown() (ends func()) {
	done := kit.BeginShutdown(s.c)
	synctest.Wait()
	return func() {
		s.Helper()
		kit.OK(s.T, <-done)
	}
}

// Shutdown waits for what is held, which is renewed meanwhile and may be nested; nothing
// new is acquired, and who waits is told.
func TestShutdown(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		h := s.lock(background)
		busy := s.Must(s.other.NewMutex("busy").Lock(background))
		waits := kit.Begin(func() (*holdfast.Hold, error) { return s.c.NewMutex("busy").Lock(background) })
		done := kit.BeginShutdown(s.c)
		s.failed(waits, holdfast.ErrClosed)
		kit.Fails(s.T, holdfast.ErrClosed)(s.c.NewMutex("new").TryLock(background))
		kit.WantError(s.T, s.c.NewUnleasedSemaphore("s").TryAcquire(background, 1), holdfast.ErrClosed)
		if s.Kind.Nests() {
			s.Unlock(s.lock(h.Context()))
		}
		time.Sleep(2 * time.Minute)
		kit.Nothing(s.T, done, "it did not wait")
		start := time.Now()
		s.Unlock(h)
		kit.OK(s.T, <-done)
		s.within(start, 200*time.Millisecond)
		s.Unlock(busy)
	})
}

// Shutdown is bounded by its context; what is left then is given back. Lost holds are not
// waited for.
func TestShutdownIsBounded(t *testing.T) {
	fake(t, func(s *stage) {
		h := s.lock(background)
		for i := range 12 {
			s.Must(s.c.NewMutex(fmt.Sprintf("{x}%d", 10+i)).Lock(background))
		}
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		start := time.Now()
		err := s.c.Shutdown(ctx)
		kit.WantError(s.T, err, context.DeadlineExceeded)
		if said := fmt.Sprint(err); !strings.Contains(said, `13 still held, of ["x" "{x}10" `) || strings.Contains(said, "{x}19") ||
			strings.Count(said, context.DeadlineExceeded.Error()) != 1 {
			s.Error(said)
		}
		kit.Took(s.T, time.Since(start), time.Minute, time.Minute, "it took %v")
		kit.WantError(s.T, context.Cause(h.Context()), holdfast.ErrClosed)
		s.WantReply("0", "EXISTS", "x")

		s.Must(s.theirs.Lock(background, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		start = time.Now()
		kit.OK(s.T, s.other.Shutdown(background))
		s.within(start, time.Second)
	})
}

// A writer may read, and downgrade, while the client shuts down.
func TestShutdownLetsWritersRead(t *testing.T) {
	fake(t, func(s *stage) {
		m := s.c.NewRWMutex("x")
		write := s.Must(m.Lock(background))
		done := kit.BeginShutdown(s.c)
		synctest.Wait()
		s.Unlock(s.Must(m.RLock(write.Context())))
		read := s.Must(m.Downgrade(write))
		time.Sleep(time.Minute)
		kit.Nothing(s.T, done, "it did not wait for the reader")
		s.Unlock(read)
		kit.OK(s.T, <-done)
	})
}

// Whether an acquire goes on through Shutdown is decided when it is made: it is had though there is nothing left to nest it in,
// and Shutdown waits for it. One that is nested waits for its turn through Shutdown.
func TestShutdownLetsInWhatWasNested(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		kept := s.Must(s.Mutex(s.c, "z").Lock(background))
		outer, inner := s.lock(s.own), s.lock(s.own)
		ends := s.shutdown()
		kit.Next(s.d, "release", memdriver.Fault{DelayReply: 1500 * time.Millisecond})
		unlocked := kit.Aside(inner.Unlock)
		waits := s.begin(s.own)
		s.Unlock(outer)
		kit.OK(s.T, <-unlocked)
		h := s.got(waits)
		s.Unlock(kept)
		kit.Fails(s.T, holdfast.ErrClosed)(s.x.TryLock(holdfast.WithOwner(background, s.c.NewOwner())))
		s.Unlock(h)
		ends()
	})
}

// One that has nothing to nest in when it is made ends when Shutdown begins, though its owner has the lock by then.
func TestShutdownEndsWhatWasNotNested(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		slow := memdriver.Fault{DelayRequest: 300 * time.Millisecond}
		kit.Next(s.d, "acquire", slow, slow)
		first, second, third := s.begin(s.own), s.begin(s.own), s.begin(s.own)
		one := s.got(first)
		ends := s.shutdown()
		s.failed(third, holdfast.ErrClosed)
		if two := <-second; two.Err == nil {
			s.Unlock(two.Hold) // it was on its way
		} else {
			kit.WantError(s.T, two.Err, holdfast.ErrClosed)
		}
		s.Unlock(one)
		ends()
	})
}

// One whose owner has lost the lock is not nested.
func TestShutdownLetsNothingNestInWhatIsLost(t *testing.T) {
	fakeNesting(t, func(s *stage) {
		kept := s.Must(s.Mutex(s.c, "z").Lock(background))
		lost := s.lock(s.own, holdfast.FixedLease(time.Second))
		<-lost.Context().Done()
		ends := s.shutdown()
		kit.Fails(s.T, holdfast.ErrClosed)(s.x.Lock(s.own))
		s.Lost(lost)
		s.Unlock(kept)
		ends()
	})
}

// TestShutdownBeforeTheNextAttempt: nobody has answered the first one, and no other is made.
func TestShutdownBeforeTheNextAttempt(t *testing.T) {
	fakeKinds(t, func(s *stage) {
		kept := s.Must(s.Mutex(s.c, "z").Lock(background))
		kit.Next(s.d, "acquire", memdriver.Fault{LoseRequest: true})
		waits := s.begin(background)
		time.Sleep(100 * time.Millisecond)
		ends := s.shutdown()
		s.failed(waits, holdfast.ErrClosed)
		s.Unlock(kept)
		ends()
	})
}

// Permits sets how many there are, once, if nobody has. That it has no effect is said once, and in each error. What is refused
// before anything is sent sets nothing.
func TestPermitsOption(t *testing.T) {
	var l heard
	fake(t, func(s *stage) {
		seen := kit.Count(s.d)
		permits, more := s.c.NewPermitSemaphore("x", holdfast.Permits(3)), s.c.NewPermitSemaphore("x", holdfast.Permits(5))
		h := s.Must(permits.Acquire(background, 2))
		s.Unlock(s.Must(permits.Lock(background)))
		if n := seen.Of("set"); n != 1 {
			s.Errorf("set %d times", n)
		}
		refused := func(says string) {
			s.Helper()
			_, err := more.Acquire(background, 2, holdfast.Wait(time.Second))
			if kit.WantError(s.T, err, holdfast.ErrNoPermits); !strings.HasSuffix(err.Error(), says) {
				s.Error(err)
			}
		}
		l.took()
		refused("; this one was made with Permits(5), but 3 are set already: SetPermits changes that")
		refused("; this one was made with Permits(5), but 3 are set already: SetPermits changes that")
		if told := l.took(); strings.Count(told, "error") != 1 {
			s.Errorf("told %s", told)
		}
		kit.OK(s.T, permits.SetPermits(background, 5))
		rest := s.Must(more.Acquire(background, 3))
		refused(": all 5 are held")
		s.Unlock(h, rest)
		for _, bad := range []holdfast.SemaphoreOption{nil, holdfast.Permits(0), holdfast.Permits(-1), holdfast.Permits(holdfast.MaxCount + 1)} {
			kit.Fails(s.T, holdfast.ErrInvalid)(s.c.NewPermitSemaphore("x", bad).Lock(background))
			kit.WantError(s.T, s.c.NewUnleasedSemaphore("y", bad).TryAcquire(background, 1), holdfast.ErrInvalid)
		}
		ended, end := context.WithCancel(background)
		end()
		kit.WantError(s.T, s.c.NewUnleasedSemaphore("y", holdfast.Permits(3)).Acquire(ended, 1), context.Canceled)
		kit.Fails(s.T, holdfast.ErrInvalid)(s.c.NewPermitSemaphore("y", holdfast.Permits(3)).TryAcquire(background, 1, holdfast.MinHold(time.Second)))
		s.WantReply("0", "EXISTS", "y")
		s.Do("DEL", "x")
		time.Sleep(kit.CallsLive)
	}, holdfast.WithHooks(l.hooks()))
}
