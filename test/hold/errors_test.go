package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Calls return within the client's timeout, however the server fails them: a try
// that begins shortly before the end is not waited for in full.
func TestCallsEndWithinTheTimeout(t *testing.T) {
	const timeout = 6 * time.Second
	refused := memdriver.Fault{Refuse: errors.New("connection refused")}
	// Each row is what happens to the first calls; the last is what happens to all others.
	rows(t, kinds, map[string][]memdriver.Fault{
		"silent":             {kit.LostRequest},
		"refused at first":   {refused, kit.LostRequest},
		"refused often":      {refused, refused, refused, refused, refused, refused, kit.LostRequest},
		"delayed replies":    {{DelayReply: 1999 * time.Millisecond}},
		"delayed, then lost": {{DelayReply: 1900 * time.Millisecond}, {LoseReply: true}},
	}, func(s *stage, pattern []memdriver.Fault) {
		bounded := func(what string, call func() error) {
			s.Helper()
			var n atomic.Int32
			s.d.SetFaults(func(driver.Call) memdriver.Fault { return pattern[min(int(n.Add(1)), len(pattern))-1] })
			began := time.Now()
			err := call()
			if took := time.Since(began); took > timeout {
				s.Errorf("%s took %v: %v", what, took, err)
			}
			s.heals() // what is left to reconcile
		}
		h := s.lock(holdfast.FixedLease(time.Hour))
		bounded("Inspect", func() error { return kit.ErrOf(s.l.Inspect(background)) })
		bounded("Extend", func() error { return h.Extend(background, 2*time.Hour) })
		bounded("Unlock", h.Unlock)
		bounded("TryLock", func() error {
			h, err := s.l.TryLock(background)
			if err == nil {
				s.d.SetFaults(nil)
				s.Unlock(h)
			}
			return err
		})
		h = s.lock(holdfast.FixedLease(time.Hour))
		bounded("ForceUnlock", func() error { return kit.ErrOf(s.l.ForceUnlock(background)) })
		_ = h.Unlock()
	}, holdfast.WithTimeout(timeout))
}

// anotherCallsErrors are errors with which the context of a call may end, as those of a group do.
var anotherCallsErrors = map[string]func(s *stage) error{
	"no answer": func(s *stage) error {
		c, d := s.Client()
		kit.Away(d)
		err := kit.ErrOf(c.NewMutex("other").TryLock(background))
		s.backend("TryLock", err, "")
		return err
	},
	"what the error of a call wraps whose time was over": func(s *stage) error {
		c, d := s.Client()
		h, start := s.Must(s.Mutex(c, "other").Lock(background)), time.Now()
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "inspect" {
				return memdriver.Fault{LoseRequest: time.Since(start) < 4*time.Second, DelayReply: time.Second}
			}
			return memdriver.Fault{LoseRequest: call.Script.Name() == "force"}
		})
		err := s.backend("ForceUnlock", kit.ErrOf(c.NewMutex("other").ForceUnlock(background)), "").Err
		s.within(start, 6*time.Second, 6*time.Second)
		d.SetFaults(nil)
		s.Unlock(h)
		return err
	},
	"untold": func(*stage) error { return fmt.Errorf("another call's: %w", holdfast.ErrUntold) },
	"closed": func(s *stage) error {
		c, _ := s.Client()
		kit.OK(s.T, c.Close())
		err := kit.ErrOf(c.NewMutex("other").TryLock(background))
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
			"Lock":        kit.ErrOf(s.l.Lock(ended)),
			"TryLock":     kit.ErrOf(s.l.TryLock(ended)),
			"Extend":      h.Extend(ended, time.Minute),
			"Inspect":     kit.ErrOf(s.l.Inspect(ended)),
			"ForceUnlock": kit.ErrOf(s.l.ForceUnlock(ended)),
		} {
			s.Log(what)
			kit.WantError(s.T, err, context.Canceled, cause)
		}
		s.Unlock(h)

		// While it waits for its owner's turn.
		ctx, end := context.WithCancelCause(s.ctx)
		kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		first, second := s.begin(ctx), s.begin(ctx, holdfast.Wait(time.Minute))
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
		h := s.Must(s.Lock(other).Lock(background))
		ctx, end := context.WithCancelCause(background)
		kit.Next(s.d, "force", memdriver.Fault{LoseRequest: true})
		forced := kit.Aside(func() error {
			took, err := s.l.ForceUnlock(ctx)
			if took {
				s.Error("it says that it took the lock")
			}
			return err
		})
		end(fmt.Errorf("another call's: %w", holdfast.ErrUntold))
		kit.WantError(s.T, <-forced, context.Canceled, holdfast.ErrUntold)
		s.Unlock(h)
	})
}

// The same for what has no owner: nothing was sent.
func TestSemaphoreEndsWithAnotherCallsError(t *testing.T) {
	fake(t, func(s *stage) {
		sem := s.c.NewUnleasedSemaphore("s")
		ended, end := context.WithCancelCause(background)
		end(holdfast.ErrUntold)
		for _, err := range []error{
			kit.ErrOf(sem.TrySetPermits(ended, 3)), kit.ErrOf(sem.Delete(ended)), kit.ErrOf(sem.Drain(ended)), kit.ErrOf(sem.Expire(ended, time.Minute)),
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
	often(t, fake, 20, func(s *stage, _ int) {
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
	values(t, kinds, []bool{true, false}, func(s *stage, refused bool) {
		h := s.lock()
		kit.All(s.d, memdriver.Fault{Refuse: kit.Refusal(refused), LoseReply: !refused})
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
	h := s.heldByOther()
	for i, wait := range waits {
		got = append(got, s.begin(background, holdfast.Wait(wait)))
		if i == 0 {
			time.Sleep(time.Second)
			s.d.SetFaults(faults)
		}
	}
	s.d.LoseMessages(s.Kind.ByMessage()) // or no call would be needed
	s.Unlock(h)
	return got
}

// TestTheLastRefusalIsTold: the one before it, that another holds the lock, is old by then.
func TestTheLastRefusalIsTold(t *testing.T) {
	values(t, kinds, []time.Duration{3 * time.Second, 12 * time.Second}, func(s *stage, wait time.Duration) {
		for _, waits := range s.behind(func(driver.Call) memdriver.Fault { return full }, wait) {
			kit.WantBackend(s.T, "Lock", (<-waits).Err, "OOM")
		}
		s.heals()
	})
}

// TestAnEarlierTryMayHaveHadItsEffect: of a call that is refused at its end, the reply to a try before that was lost. That try may be
// that of another one who waits at the same client, which is told of its failure.
func TestAnEarlierTryMayHaveHadItsEffect(t *testing.T) {
	values(t, kinds, [][]time.Duration{
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
		s.Unlock(s.Must(s.rival.TryLock(background)))
	})
}

// Whose context ends while another holds the lock is told who that is, and its error is still the context's alone.
func TestGaveUpSaysWhoHoldsIt(t *testing.T) {
	values(t, kinds, []bool{false, true}, func(s *stage, several bool) {
		var l holdfast.Locker = s.l
		if several {
			l = holdfast.NewMultiLock(s.l, s.Mutex(s.c, "{x}2"))
		}
		held, start := s.heldByOther(), time.Now()
		late, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		cancelled, end := context.WithCancelCause(background)
		time.AfterFunc(2*time.Second, func() { end(errors.New("a cause")) })
		for i, ctx := range []context.Context{late, cancelled} {
			err, after := kit.ErrOf(l.Lock(ctx)), time.Duration(i+1)*time.Second
			s.within(start, after, after)
			kit.WantError(s.T, err, ctx.Err(), context.Cause(ctx))
			var locked *holdfast.LockedError
			if errors.Is(err, holdfast.ErrLocked) || !errors.As(err, &locked) || locked.Holder != held.Owner() ||
				!strings.Contains(err.Error(), ": the caller gave up: held by another owner: ") {
				s.Errorf("%v, of %+v", err, locked)
			}
		}
		s.Unlock(held)
	})
}

// The same of permits.
func TestGaveUpSaysWhichPermitsAreMissing(t *testing.T) {
	fake(t, func(s *stage) {
		permits, counter := s.c.NewPermitSemaphore("s"), s.c.NewUnleasedSemaphore("u")
		kit.OK(s.T, kit.ErrOf(permits.TrySetPermits(background, 1)), kit.ErrOf(counter.TrySetPermits(background, 1)))
		held := s.Must(permits.Lock(background))
		for _, acquire := range []func(context.Context) error{
			func(ctx context.Context) error { return kit.ErrOf(permits.Lock(ctx)) },
			func(ctx context.Context) error { return counter.Acquire(ctx, 2) },
		} {
			ctx, cancel := context.WithTimeout(background, time.Second)
			err := acquire(ctx)
			cancel()
			var missing *holdfast.PermitsError
			if !errors.As(err, &missing) || !errors.As(err, new(*holdfast.LockedError)) || missing.Wanted == 0 ||
				errors.Is(err, holdfast.ErrNoPermits) || !errors.Is(err, context.DeadlineExceeded) {
				s.Errorf("%v, of %+v", err, missing)
			}
		}
		s.Unlock(held)
		kit.OK(s.T, kit.ErrOf(permits.Delete(background)), kit.ErrOf(counter.Delete(background)))
		time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
	})
}

// A loss that the work returns as its own error, as in the first example, is said once.
func TestLossIsSaidOnce(t *testing.T) {
	rows(t, fake, map[string]func(c *holdfast.Client) holdfast.Locker{
		"mutex":   func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") },
		"permits": func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("x", holdfast.Permits(1)) },
		"several": func(c *holdfast.Client) holdfast.Locker { return holdfast.NewMultiLock(kit.Mutexes(c, "x", "{x}2")...) },
	}, func(s *stage, open func(c *holdfast.Client) holdfast.Locker) {
		wantOnce := func(what string, err error) {
			for _, name := range []string{"x", "{x}2", "x+{x}2"} {
				if n := strings.Count(fmt.Sprint(err), fmt.Sprintf("%q: the hold was lost", name)); n > 1 {
					s.Errorf("%s: the loss of %s, %d times: %v", what, name, n, err)
				}
			}
			kit.WantError(s.T, err, holdfast.ErrLost)
		}
		work := func(ctx context.Context, _ *holdfast.Hold) error {
			s.Do("FLUSHALL")
			<-ctx.Done()
			return fmt.Errorf("the work: %w", context.Cause(ctx))
		}
		l := open(s.c)
		wantOnce("Do", holdfast.Do(background, l, work))

		ctx, cancel := context.WithCancel(background)
		var told error
		hooks := holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, e holdfast.Event) {
			told = e.Err
			cancel()
		}})
		kit.WantError(s.T, holdfast.Lead(ctx, l, work, hooks), context.Canceled)
		wantOnce("Lead", told)
		s.Do("FLUSHALL")
		time.Sleep(time.Minute)
	})
}

// What several locks say that were not acquired.

// TestARefusalOfSeveralLocksIsTold, whichever ends first, the wait or the time of a call. Of several locks of one name only the first is
// waited for.
func TestARefusalOfSeveralLocksIsTold(t *testing.T) {
	fake(t, func(s *stage) {
		good, bad := kit.Several(s.World, 3), kit.Several(s.Further(), 3)
		bad.Fault(full, 0, 1, 2)
		g, a, b := good.Clients[0], bad.Clients[0], bad.Clients[1]
		for what, test := range map[string]struct {
			l    *holdfast.MultiLock
			some bool // of its parts may have been acquired
		}{
			"one client":      {l: holdfast.NewMultiLock(kit.Mutexes(a, "x", "y")...)},
			"two clients":     {l: holdfast.NewMultiLock(a.NewMutex("x"), b.NewMutex("y"))},
			"RedLock":         {l: holdfast.NewRedLock(a.NewMutex("x"), b.NewMutex("x")), some: true},
			"with a good one": {l: holdfast.NewMultiLock(g.NewMutex("y"), a.NewMutex("y")), some: true},
			"RedLocks":        {l: holdfast.NewMultiLock(good.Redlock("x"), bad.Redlock("x")), some: true},
			"permits":         {l: holdfast.NewMultiLock(g.NewPermitSemaphore("s", holdfast.Permits(3)), a.NewPermitSemaphore("s", holdfast.Permits(3))), some: true},
		} {
			for _, wait := range []time.Duration{500 * time.Millisecond, time.Minute, 0} {
				_, err := test.l.Lock(background, holdfast.Wait(wait))
				if failed := s.backend(what, err, "OOM"); failed.MayHaveRun && !test.some {
					s.Errorf("%s, for %v: %v", what, wait, err)
				}
			}
		}
		bad.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
		s.Do("DEL", "s")
	})
}

// TestPartsThatAreLeft: some of several locks are acquired, and cannot be given back, or can, if not always before the call
// returns.
func TestPartsThatAreLeft(t *testing.T) {
	values(t, fake, []bool{false, true}, func(s *stage, left bool) {
		of := kit.Several(s.World, 3, holdfast.WithTimeout(time.Second))
		for i, d := range of.Drivers {
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				return memdriver.Fault{Refuse: kit.Refusal(i > 0), LoseRequest: left && call.Script.Name() != "acquire"}
			})
		}
		for what, l := range map[string]*holdfast.MultiLock{
			"multi-lock": holdfast.NewMultiLock(of.Clients[0].NewMutex("a"), of.Clients[1].NewMutex("b")),
			"RedLock":    of.Redlock("x"),
		} {
			for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
				_, err := l.Lock(background, holdfast.Wait(wait))
				if stands := s.Do("KEYS", "[abx]") != ""; left && !stands || !s.backend(what, err, "").MayHaveRun {
					s.Errorf("%s, waiting for %v: something stands: %v, %v", what, wait, stands, err)
				}
				time.Sleep(time.Minute)
			}
		}
		of.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
		of.WantFree(s.T)
	})
}

// TestPartsOfAnEarlierTryThatAreLeft: a try has had one, which cannot be given back, and ended because another is held. The
// last one ends for another reason.
func TestPartsOfAnEarlierTryThatAreLeft(t *testing.T) {
	type combine = func(...holdfast.Locker) *holdfast.MultiLock
	rows(t, fake, map[string]combine{"multi-lock": holdfast.NewMultiLock, "RedLock": holdfast.NewRedLock}, func(s *stage, combine combine) {
		of := kit.Several(s.World, 3, holdfast.WithTimeout(time.Second))
		rivals := of.Again()
		held := []*holdfast.Hold{
			s.Must(rivals.Clients[1].NewMutex("x").Lock(background)), s.Must(rivals.Clients[2].NewMutex("x").Lock(background)),
		}
		of.Drivers[0].SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() != "acquire"}
		})
		l := combine(of.Clients[0].NewMutex("x"), of.Clients[1].NewMutex("x"), of.Clients[2].NewMutex("x"))
		waits := kit.Begin(func() (*holdfast.Hold, error) { return l.Lock(background, holdfast.Wait(10*time.Second)) })
		time.Sleep(time.Second)
		of.Fault(full, 1, 2)
		failed := s.backend("Lock", (<-waits).Err, "")
		s.WantReply("x", "KEYS", "*")
		if !failed.MayHaveRun {
			s.Error(failed)
		}
		of.Fault(memdriver.Fault{}, 0, 1, 2)
		s.Unlock(held...)
		time.Sleep(time.Minute)
		of.WantFree(s.T)
	})
}

// TestAWaitThatIsOverAtOnce is not its caller's giving up, even if a part has not begun by then. That takes real time.
func TestAWaitThatIsOverAtOnce(t *testing.T) {
	lockers := make([]holdfast.Locker, 3)
	for i := range lockers {
		server, err := memdriver.NewServer()
		kit.OK(t, err)
		t.Cleanup(server.Close)
		c, err := testclient.New(server.Driver())
		kit.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		lockers[i] = c.NewMutex("x")
	}
	l := holdfast.NewRedLock(lockers...)
	for i := range 3000 {
		h, err := l.Lock(background, holdfast.Wait(1+time.Duration(i)*300*time.Nanosecond))
		switch {
		case err == nil:
			kit.Unlock(t, h)
		case errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
}
