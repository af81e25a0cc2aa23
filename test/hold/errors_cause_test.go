package hold

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// anotherCallsErrors are errors with which the context of a call may end, as those of a group do.
var anotherCallsErrors = map[string]func(s *stage) error{
	"no answer": func(s *stage) error {
		c, d := s.Client()
		kit.Away(d)
		err := errOf(c.NewMutex("other").TryLock(background))
		s.backend("TryLock", err, "")
		return err
	},
	"what the error of a call wraps whose time was over": func(s *stage) error {
		c, d := s.Client()
		h, start := s.must(s.Mutex(c, "other").Lock(background)), time.Now()
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "inspect" {
				return memdriver.Fault{LoseRequest: time.Since(start) < 4*time.Second, DelayReply: time.Second}
			}
			return memdriver.Fault{LoseRequest: call.Script.Name() == "force"}
		})
		err := s.backend("ForceUnlock", errOf(c.NewMutex("other").ForceUnlock(background)), "").Err
		s.within(start, 6*time.Second, 6*time.Second)
		d.SetFaults(nil)
		s.unlock(h)
		return err
	},
	"untold": func(*stage) error { return fmt.Errorf("another call's: %w", holdfast.ErrUntold) },
	"closed": func(s *stage) error {
		c, _ := s.Client()
		kit.OK(s.T, c.Close())
		err := errOf(c.NewMutex("other").TryLock(background))
		kit.WantError(s.T, err, holdfast.ErrClosed)
		return err
	},
}

// The context of one call may have ended with the error of another. That is its cause, and nothing
// that this call, or its client, has come to itself.
func TestAContextEndsWithAnotherCallsError(t *testing.T) {
	rows(t, kinds, anotherCallsErrors, func(s *stage, other func(s *stage) error) {
		cause := other(s)
		h := s.lock()
		ended, end := context.WithCancelCause(background)
		end(cause)
		for what, err := range map[string]error{
			"Lock":        errOf(s.l.Lock(ended)),
			"TryLock":     errOf(s.l.TryLock(ended)),
			"Extend":      h.Extend(ended, time.Minute),
			"Inspect":     errOf(s.l.Inspect(ended)),
			"ForceUnlock": errOf(s.l.ForceUnlock(ended)),
		} {
			s.Log(what)
			kit.WantError(s.T, err, context.Canceled, cause)
		}
		s.unlock(h)

		// While it waits for its owner's turn.
		ctx, end := context.WithCancelCause(s.ctx)
		kit.Once(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		first, second := s.waits(ctx), s.waits(ctx, holdfast.Wait(time.Minute))
		began := time.Now()
		end(cause)
		for _, call := range []<-chan kit.Result{first, second} {
			kit.WantError(s.T, (<-call).Err, context.Canceled, cause)
		}
		s.within(began, 0, 0)
		time.Sleep(time.Minute)
	})
}

// What was lost on its way to Redis took nothing, whatever its context ends with.
func TestForceUnlockEndsWithAnotherCallsError(t *testing.T) {
	kinds(t, func(s *stage) {
		other, _ := s.Client()
		h := s.must(s.Lock(other).Lock(background))
		ctx, end := context.WithCancelCause(background)
		kit.Once(s.d, "force", memdriver.Fault{LoseRequest: true})
		forced := kit.Aside(func() error {
			took, err := s.l.ForceUnlock(ctx)
			if took {
				s.Error("it says that it took the lock")
			}
			return err
		})
		end(fmt.Errorf("another call's: %w", holdfast.ErrUntold))
		kit.WantError(s.T, <-forced, context.Canceled, holdfast.ErrUntold)
		s.unlock(h)
	})
}

// The same for what has no owner: nothing was sent.
func TestSemaphoreEndsWithAnotherCallsError(t *testing.T) {
	fake(t, func(s *stage) {
		sem := s.c.NewUnleasedSemaphore("s")
		ended, end := context.WithCancelCause(background)
		end(holdfast.ErrUntold)
		for _, err := range []error{
			errOf(sem.TrySetPermits(ended, 3)), errOf(sem.Delete(ended)), errOf(sem.Drain(ended)), errOf(sem.Expire(ended, time.Minute)),
		} {
			kit.WantError(s.T, err, context.Canceled, holdfast.ErrUntold)
		}
	})
}

// TestHooksAreToldTheCallersContext: it goes on when the call's time is over.
func TestHooksAreToldTheCallersContext(t *testing.T) {
	var told context.Context
	fake(t, func(s *stage) {
		kit.Away(s.d)
		err := s.c.NewUnleasedSemaphore("s", holdfast.Permits(2)).Acquire(background, 1, holdfast.Wait(time.Second))
		if err == nil || told == nil || told.Err() != nil {
			s.Errorf("%v; the hook's context: %v", err, told)
		}
	}, holdfast.WithHooks(holdfast.Hooks{OnRefuse: func(ctx context.Context, _ holdfast.Event) { told = ctx }}))
}

// TestALossIsNotTheCallersDeadline: the time of a renewal and that of its only attempt are over at once.
func TestALossIsNotTheCallersDeadline(t *testing.T) {
	often(t, kit.MutexKind, 20, func(s *stage, _ int) {
		h := s.lock()
		kit.Away(s.d)
		<-h.Context().Done()
		err := h.Unlock()
		kit.WantError(s.T, err, holdfast.ErrLost)
		if errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Unlock: %v", err)
		}
		s.heals()
	}, holdfast.WithLease(time.Second))
}

// A renewal that Redis has refused had no effect, and one without an answer may have had it.
func TestRenewalSaysWhetherItMayHaveRun(t *testing.T) {
	each(t, kinds, []bool{true, false}, func(s *stage, refused bool) {
		h := s.lock()
		kit.Silent(s.d, memdriver.Fault{Refuse: kit.Refusal(refused), LoseReply: !refused})
		<-h.Context().Done()
		if failed := s.backend("renewal", context.Cause(h.Context()), ""); failed.Op != "renew" || failed.MayHaveRun == refused {
			s.Errorf("%+v", failed)
		}
		s.heals()
	})
}

var full = memdriver.Fault{Refuse: kit.Refusal(true)}

// behind has Locks wait behind the rival, which gives back what it has: no message tells of that. What Redis answers from then on is
// up to the faults. Those after the first come when that has begun.
func (s *stage) behind(faults func(call driver.Call) memdriver.Fault, waits ...time.Duration) (got []<-chan kit.Result) {
	s.Helper()
	h := s.beside()
	for i, wait := range waits {
		got = append(got, s.waits(background, holdfast.Wait(wait)))
		if i == 0 {
			time.Sleep(time.Second)
			s.d.SetFaults(faults)
		}
	}
	s.d.LoseMessages(s.Kind.ByMessage) // or no call would be needed
	s.unlock(h)
	return got
}

// TestTheLastRefusalIsTold: the one before it, that another holds the lock, is old by then.
func TestTheLastRefusalIsTold(t *testing.T) {
	each(t, kinds, []time.Duration{3 * time.Second, 12 * time.Second}, func(s *stage, wait time.Duration) {
		for _, waits := range s.behind(func(driver.Call) memdriver.Fault { return full }, wait) {
			kit.WantBackend(s.T, "Lock", (<-waits).Err, "OOM")
		}
		s.heals()
	})
}

// TestAnEarlierTryMayHaveHadItsEffect: of a call that is refused at its end, the reply to a try before that was lost. That try may be
// that of another one who waits at the same client, which is told of its failure.
func TestAnEarlierTryMayHaveHadItsEffect(t *testing.T) {
	each(t, kinds, [][]time.Duration{
		{30 * time.Second},
		{30 * time.Second, 9 * time.Second}, // the call with the lost reply is over then, and the next one is not
	}, func(s *stage, waits []time.Duration) {
		var n atomic.Int32
		start, alone := time.Now(), len(waits) == 1
		got := s.behind(func(call driver.Call) memdriver.Fault {
			switch {
			case alone && time.Since(start) > 10*time.Second: // the call that had its effect is over
				return full
			case alone && call.Script.Name() != "acquire":
				return memdriver.Fault{}
			case n.Add(1) == 1:
				return memdriver.Fault{LoseReply: true}
			case alone:
				return memdriver.Fault{LoseRequest: true}
			}
			return full
		}, waits...)
		mayHaveRun := 0 // it is one of them that has sent the first one
		for _, waits := range got {
			if s.backend("Lock", (<-waits).Err, "OOM").MayHaveRun {
				mayHaveRun++
			}
		}
		if mayHaveRun != 1 {
			s.Errorf("%d of %d say that they may have had their effect", mayHaveRun, len(got))
		}
		s.heals() // it is taken back
		s.unlock(s.must(s.rival.TryLock(background)))
	})
}
