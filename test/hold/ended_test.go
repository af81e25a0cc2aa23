package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A service tells its own client apart: another owner has the lock (409), Redis is away (503), the client gave up (499). These tests
// end every kind of call by every bound in every state of Redis.

// bounds are the ways to end a call after a time. Each reports which error of a context the call has to match; nil: none.
var bounds = map[string]func(after time.Duration) (context.Context, []holdfast.WaitOption, error){
	"deadline": func(after time.Duration) (context.Context, []holdfast.WaitOption, error) {
		ctx, cancel := context.WithTimeout(background, after)
		context.AfterFunc(ctx, cancel)
		return ctx, nil, context.DeadlineExceeded
	},
	"cancellation": func(after time.Duration) (context.Context, []holdfast.WaitOption, error) {
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(after, cancel)
		return ctx, nil, context.Canceled
	},
	"Wait": func(after time.Duration) (context.Context, []holdfast.WaitOption, error) {
		return background, []holdfast.WaitOption{holdfast.Wait(after)}, nil
	},
}

var (
	errRefused = errors.New("dial tcp: connection refused")
	away       = memdriver.Fault{Refuse: errRefused}
	movingSlot = memdriver.Fault{Refuse: driver.ServerError("TRYAGAIN Multiple keys request during rehashing of slot", errors.New("TRYAGAIN"))}
	forbidden  = memdriver.Fault{Refuse: driver.ServerError("NOPERM no permissions", errors.New("NOPERM no permissions"))}
)

// ending is the expected end of a call.
type ending struct {
	backend, locked bool
	cause           error // in the chain of the BackendError
}

// wants checks the error of a call that a bound has ended. ctxErr is what it has to match; nil: no context has ended.
func (e ending) wants(s *stage, what string, err, ctxErr error) {
	s.Helper()
	var backend *holdfast.BackendError
	var locked *holdfast.LockedError
	switch {
	case errors.As(err, &backend) != e.backend, errors.As(err, &locked) != e.locked:
		s.Errorf("%s: a BackendError: %v, a LockedError: %v, and not as it should be: %v", what, backend != nil, locked != nil, err)
	case ctxErr != nil && !errors.Is(err, ctxErr), ctxErr == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		s.Errorf("%s does not match %v alone: %v", what, ctxErr, err)
	case errors.Is(err, holdfast.ErrLocked) != (e.locked && ctxErr == nil):
		s.Errorf("%s matches ErrLocked, or should: %v", what, err)
	case e.cause != nil && !errors.Is(err, e.cause):
		s.Errorf("%s does not match %v: %v", what, e.cause, err)
	case strings.Contains(err.Error(), "\n"):
		s.Errorf("%s has several lines: %v", what, err)
	case ctxErr != nil && !strings.Contains(err.Error(), ctxErr.Error()),
		e.backend && !strings.Contains(err.Error(), backend.Err.Error()):
		s.Errorf("%s does not say both: %v", what, err)
	}
}

// bound is one of bounds.
type bound = func(after time.Duration) (context.Context, []holdfast.WaitOption, error)

// lockOptions are the options as Lock wants them.
func lockOptions(options []holdfast.WaitOption) (all []holdfast.LockOption) {
	for _, o := range options {
		all = append(all, o)
	}
	return all
}

// outages are the states of a server in which a call waits, with how it has to end then.
var outages = map[string]struct {
	fault memdriver.Fault
	ending
}{
	"held":   {ending: ending{locked: true}},
	"away":   {fault: away, ending: ending{backend: true, cause: errRefused}},
	"silent": {fault: kit.LostRequest, ending: ending{backend: true}},
	"moving": {fault: movingSlot, ending: ending{backend: true}},
}

// TestWhyAnAcquireEnded: Redis is in this state from the start, or from a moment on at which the call waits for another owner.
func TestWhyAnAcquireEnded(t *testing.T) {
	rows(t, kinds, bounds, func(s *stage, bound bound) {
		several := holdfast.NewMultiLock(s.l, s.Mutex(s.c, "{x}2"))
		for state, row := range outages {
			for _, from := range []time.Duration{0, 500 * time.Millisecond} {
				for _, after := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second} {
					if from > 0 && after < 2*time.Second {
						continue // the last reply is younger than a waiter's interval
					}
					for what, l := range map[string]holdfast.Locker{"Lock": s.l, "Lock of several": several} {
						if l != s.l && s.Kind != kit.MutexKind {
							continue
						}
						want := row.ending
						if ctx, _, _ := bound(0); after < 100*time.Millisecond && state == "silent" && ctx.Done() != nil && ctx.Err() != context.DeadlineExceeded {
							want = ending{} // it was cancelled before anybody can say that Redis is slow
						}
						var held *holdfast.Hold
						if from > 0 || want.locked {
							held = s.heldByOther()
						}
						time.AfterFunc(from, func() { kit.All(s.d, row.fault) })
						if from == 0 {
							kit.All(s.d, row.fault)
						}
						ctx, options, ctxErr := bound(after)
						start := time.Now()
						err := kit.ErrOf(l.Lock(ctx, lockOptions(options)...))
						s.within(start, 0, after+250*time.Millisecond)
						want.wants(s, fmt.Sprintf("%s, %s, from %v, after %v", state, what, from, after), err, ctxErr)
						s.heals()
						if held != nil {
							s.Unlock(held)
						}
					}
				}
			}
		}
	})
}

// TestWhyAWaiterBehindAnotherEnded: the one ahead of it in the process sends the requests.
func TestWhyAWaiterBehindAnotherEnded(t *testing.T) {
	rows(t, kinds, bounds, func(s *stage, bound bound) {
		for state, row := range outages {
			for _, from := range []time.Duration{0, 500 * time.Millisecond} {
				for _, after := range []time.Duration{200 * time.Millisecond, 2 * time.Second} {
					if from > 0 && after < 2*time.Second || s.Kind.Shared && from == 0 {
						continue // readers do not wait behind each other before they have been refused
					}
					var held *holdfast.Hold
					if from > 0 || row.locked {
						held = s.heldByOther()
					}
					if from == 0 {
						kit.All(s.d, row.fault)
					}
					ahead := s.begin(background, holdfast.Wait(5*time.Second))
					if time.Sleep(from); from > 0 {
						kit.All(s.d, row.fault)
					}
					ctx, options, ctxErr := bound(after)
					err := kit.ErrOf(s.l.Lock(ctx, lockOptions(options)...))
					row.wants(s, fmt.Sprintf("%s, from %v, after %v", state, from, after), err, ctxErr)
					<-ahead
					s.heals()
					if held != nil {
						s.Unlock(held)
					}
				}
			}
		}
	})
}

// TestWhyACallEnded: calls that do not wait for another owner.
func TestWhyACallEnded(t *testing.T) {
	rows(t, fake, bounds, func(s *stage, bound bound) {
		sem, counter, latch := s.c.NewPermitSemaphore("s"), s.c.NewUnleasedSemaphore("u"), s.c.NewLatch("l")
		kit.OK(s.T, kit.ErrOf(sem.TrySetPermits(background, 1)), kit.ErrOf(counter.TrySetPermits(background, 1)), kit.ErrOf(latch.TrySetCount(background, 1)))
		h, permit := s.lock(holdfast.FixedLease(24*time.Hour)), s.Must(sem.Lock(background, holdfast.FixedLease(24*time.Hour)))
		detached, err := s.Must(s.c.NewMutex("d").Lock(background, holdfast.FixedLease(24*time.Hour))).Detach()
		kit.OK(s.T, err)
		several := holdfast.NewMultiLock(s.c.NewMutex("a"), s.c.NewMutex("b"))
		of := kit.Several(s.Further(), 3)
		red := of.Redlock("r")
		for state, row := range outages {
			if row.locked {
				continue
			}
			for _, after := range []time.Duration{200 * time.Millisecond, 2 * time.Second} {
				for what, call := range map[string]func(ctx context.Context, options []holdfast.WaitOption) error{
					"permits": func(ctx context.Context, o []holdfast.WaitOption) error {
						return kit.ErrOf(sem.Lock(ctx, lockOptions(o)...))
					},
					"Acquire": func(ctx context.Context, o []holdfast.WaitOption) error { return counter.Acquire(ctx, 1, o...) },
					"Await":   func(ctx context.Context, o []holdfast.WaitOption) error { return latch.Await(ctx, o...) },
					"several": func(ctx context.Context, o []holdfast.WaitOption) error {
						return kit.ErrOf(several.Lock(ctx, lockOptions(o)...))
					},
					"RedLock": func(ctx context.Context, o []holdfast.WaitOption) error {
						return kit.ErrOf(red.Lock(ctx, lockOptions(o)...))
					},
					"Do": func(ctx context.Context, o []holdfast.WaitOption) error {
						return holdfast.Do(ctx, s.c.NewMutex("o"), nil, lockOptions(o)...)
					},
					"TryLock": func(ctx context.Context, _ []holdfast.WaitOption) error {
						return kit.ErrOf(s.c.NewMutex("o").TryLock(ctx))
					},
					"try more":         func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(several.TryLock(ctx)) },
					"RedLock, one try": func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(red.TryLock(ctx)) },
					"TryAcquire":       func(ctx context.Context, _ []holdfast.WaitOption) error { return counter.TryAcquire(ctx, 1) },
					"Extend":           func(ctx context.Context, _ []holdfast.WaitOption) error { return h.Extend(ctx, 48*time.Hour) },
					"Extend, permit":   func(ctx context.Context, _ []holdfast.WaitOption) error { return permit.Extend(ctx, 48*time.Hour) },
					"Inspect":          func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(s.l.Inspect(ctx)) },
					"Inspect several":  func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(several.Inspect(ctx)) },
					"ForceUnlock":      func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(s.l.ForceUnlock(ctx)) },
					"Adopt": func(ctx context.Context, _ []holdfast.WaitOption) error {
						return kit.ErrOf(s.c.NewMutex("d").Adopt(ctx, detached))
					},
					"Permits": func(ctx context.Context, _ []holdfast.WaitOption) error {
						return kit.ErrOf(s.c.NewPermitSemaphore("n", holdfast.Permits(2)).Lock(ctx))
					},
					"SetPermits": func(ctx context.Context, _ []holdfast.WaitOption) error { return sem.SetPermits(ctx, 2) },
					"Drain":      func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(counter.Drain(ctx)) },
					"Delete":     func(ctx context.Context, _ []holdfast.WaitOption) error { return kit.ErrOf(latch.Delete(ctx)) },
				} {
					kit.All(s.d, row.fault)
					of.Fault(row.fault, 0, 1, 2)
					ctx, options, ctxErr := bound(after)
					err := call(ctx, options)
					ended := ctxErr
					if ctx.Err() == nil {
						ended = nil // it has given up before
					}
					row.wants(s, fmt.Sprintf("%s, %s, after %v", state, what, after), err, ended)
					of.Fault(memdriver.Fault{}, 0, 1, 2)
					s.heals()
				}
			}
		}
		s.heals()
		kit.OK(s.T, h.Unlock(), permit.Unlock())
		s.Do("FLUSHALL")
		time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
	})
}

// TestWhyAWaitForACountEnded: the semaphores and the latch, of which nobody is the holder.
func TestWhyAWaitForACountEnded(t *testing.T) {
	rows(t, fake, bounds, func(s *stage, bound bound) {
		other, _ := s.Client()
		sem, counter, latch := s.c.NewPermitSemaphore("s"), s.c.NewUnleasedSemaphore("u"), s.c.NewLatch("l")
		kit.OK(s.T, kit.ErrOf(counter.TrySetPermits(background, 0)), kit.ErrOf(latch.TrySetCount(background, 1)))
		held := s.Must(other.NewPermitSemaphore("s", holdfast.Permits(1)).Lock(background))
		for state, row := range outages {
			for what, call := range map[string]func(ctx context.Context, o []holdfast.WaitOption) error{
				"permits": func(ctx context.Context, o []holdfast.WaitOption) error {
					return kit.ErrOf(sem.Lock(ctx, lockOptions(o)...))
				},
				"Acquire": func(ctx context.Context, o []holdfast.WaitOption) error { return counter.Acquire(ctx, 1, o...) },
				"Await":   func(ctx context.Context, o []holdfast.WaitOption) error { return latch.Await(ctx, o...) },
			} {
				time.AfterFunc(500*time.Millisecond, func() { kit.All(s.d, row.fault) })
				ctx, options, ctxErr := bound(4 * time.Second)
				err := call(ctx, options)
				want := row.ending
				if what == "Await" {
					want.locked = false
				}
				if ctxErr != nil || what != "Await" || want.backend {
					want.wants(s, state+", "+what, err, ctxErr)
				} else {
					kit.WantError(s.T, err, holdfast.ErrNotZero)
				}
				s.heals()
			}
		}
		s.Unlock(held)
		s.Do("FLUSHALL")
		time.Sleep(10 * time.Minute)
	})
}

// TestCancelledAmidARequest: that Redis has not replied within some milliseconds is no failure of Redis.
func TestCancelledAmidARequest(t *testing.T) {
	fake(t, func(s *stage) {
		of := kit.Several(s.Further(), 3)
		slow := memdriver.Fault{DelayReply: 50 * time.Millisecond}
		kit.All(s.d, slow)
		of.Fault(slow, 0, 1, 2)
		for what, call := range map[string]func(ctx context.Context) error{
			"Lock": func(ctx context.Context) error { return kit.ErrOf(s.l.Lock(ctx)) },
			"several": func(ctx context.Context) error {
				return kit.ErrOf(holdfast.NewMultiLock(kit.Mutexes(s.c, "a", "b")...).Lock(ctx))
			},
			"RedLock": func(ctx context.Context) error { return kit.ErrOf(of.Redlock("r").Lock(ctx)) },
			"Inspect": func(ctx context.Context) error { return kit.ErrOf(s.l.Inspect(ctx)) },
			"Acquire": func(ctx context.Context) error { return s.c.NewUnleasedSemaphore("u").Acquire(ctx, 1) },
		} {
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(30*time.Millisecond, cancel)
			ending{}.wants(s, what, call(ctx), context.Canceled)
			time.Sleep(time.Minute)
		}
		of.Fault(memdriver.Fault{}, 0, 1, 2)
		s.heals()
	})
}

// TestCancelledOneAfterTheOther: Redis replies to each request within 60 ms, so nobody may say that it was silent, however many waiters
// leave before their reply.
func TestCancelledOneAfterTheOther(t *testing.T) {
	kinds(t, func(s *stage) {
		held := s.heldByOther()
		kit.All(s.d, memdriver.Fault{DelayReply: 60 * time.Millisecond})
		var waiters []<-chan error
		for range 10 {
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(50*time.Millisecond, cancel)
			waiters = append(waiters, kit.Aside(func() error { return kit.ErrOf(s.l.Lock(ctx)) }))
			time.Sleep(25 * time.Millisecond)
		}
		for i, failed := range waiters {
			var backend *holdfast.BackendError
			if err := <-failed; !errors.Is(err, context.Canceled) || errors.As(err, &backend) {
				s.Errorf("waiter %d: %v", i, err)
			}
		}
		s.heals()
		s.Unlock(held)
	})
}

// TestCancelledBehindItsOwner: an earlier call of the same owner is under way, and Redis is about to reply to it.
func TestCancelledBehindItsOwner(t *testing.T) {
	nesting(t, func(s *stage) {
		kit.All(s.d, memdriver.Fault{DelayReply: 60 * time.Millisecond})
		earlier := s.begin(s.ctx)
		time.Sleep(5 * time.Millisecond)
		ctx, cancel := context.WithCancel(s.ctx)
		time.AfterFunc(20*time.Millisecond, cancel)
		ending{}.wants(s, "Lock", kit.ErrOf(s.l.Lock(ctx)), context.Canceled)
		held := <-earlier
		s.heals()
		kit.OK(s.T, held.Err, held.Hold.Unlock())
	})
}

// TestWhyACallThatGivesBackEnded: a nested Lock has to give back before what an Unlock has left, and Redis falls silent.
func TestWhyACallThatGivesBackEnded(t *testing.T) {
	rows(t, nesting, bounds, func(s *stage, bound bound) {
		owner := s.c.NewOwner()
		outer := s.Must(s.l.Lock(holdfast.WithOwner(background, owner)))
		kit.All(s.d, memdriver.Fault{DelayReply: 60 * time.Millisecond})
		earlier := s.begin(holdfast.WithOwner(background, owner))
		time.Sleep(5 * time.Millisecond)
		ctx, options, ctxErr := bound(2 * time.Second)
		ended := s.begin(holdfast.WithOwner(ctx, owner), lockOptions(options)...)
		time.Sleep(5 * time.Millisecond)
		unlocked := kit.Aside(outer.Unlock)
		time.Sleep(45 * time.Millisecond)
		kit.All(s.d, kit.LostRequest)
		ending{backend: true}.wants(s, "Lock", (<-ended).Err, ctxErr)
		s.heals()
		kit.OK(s.T, <-unlocked)
		held := <-earlier
		kit.OK(s.T, held.Err, held.Hold.Unlock())
	})
}

// TestEndedWithAnotherCallsFailure: the context ends since a hold was lost in an outage, as that of the hold itself does. Redis answers
// this call, and says that another has the lock.
func TestEndedWithAnotherCallsFailure(t *testing.T) {
	fake(t, func(s *stage) {
		held := s.heldByOther()
		lost := &holdfast.LostError{Name: "y", Reason: holdfast.LostUnanswered, Err: &holdfast.BackendError{Op: "renew", Name: "y", Err: errRefused}}
		ctx, cancel := context.WithCancelCause(background)
		time.AfterFunc(time.Second, func() { cancel(lost) })
		err := kit.ErrOf(s.l.Lock(ctx))
		ending{locked: true}.wants(s, "Lock", err, context.Canceled)
		kit.WantError(s.T, err, holdfast.ErrLost, lost)
		if found := (*holdfast.LostError)(nil); !errors.As(err, &found) || found != lost {
			s.Errorf("%v has no LostError", err)
		}
		s.Unlock(held)
	})
}

// TestRefusedByRights: Redis has answered, so nothing else is waited for.
func TestRefusedByRights(t *testing.T) {
	rows(t, kinds, bounds, func(s *stage, bound bound) {
		kit.All(s.d, forbidden)
		ctx, options, _ := bound(2 * time.Second)
		start := time.Now()
		err := kit.ErrOf(s.l.Lock(ctx, lockOptions(options)...))
		s.within(start, 0, 0)
		ending{backend: true}.wants(s, "Lock", err, nil)
		s.heals()
	})
}
