package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The context of one call may have ended with the error of another, as those of a group do. That is its cause, and nothing
// that this call, or its client, has come to itself.
func TestAContextEndsWithAnotherCallsError(t *testing.T) {
	causes := map[string]func(t *testing.T, w *kit.World) error{
		"no answer": func(t *testing.T, w *kit.World) error {
			c, d := w.Client()
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			_, err := c.NewMutex("other").TryLock(background)
			var backend *holdfast.BackendError
			if !errors.As(err, &backend) {
				t.Fatal(err)
			}
			return err
		},
		"what the error of a call wraps whose time was over": func(t *testing.T, w *kit.World) error {
			c, d := w.Client()
			h, start := kit.Must(t)(w.Mutex(c, "other").Lock(background)), time.Now()
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				if call.Script.Name() == "inspect" {
					return memdriver.Fault{LoseRequest: time.Since(start) < 4*time.Second, DelayReply: time.Second}
				}
				return memdriver.Fault{LoseRequest: call.Script.Name() == "force"}
			})
			_, err := c.NewMutex("other").ForceUnlock(background)
			var backend *holdfast.BackendError
			if !errors.As(err, &backend) || time.Since(start) != 6*time.Second {
				t.Fatal(err, time.Since(start))
			}
			d.SetFaults(nil)
			kit.Unlock(t, h)
			return backend.Err
		},
		"untold": func(*testing.T, *kit.World) error { return fmt.Errorf("another call's: %w", holdfast.ErrUntold) },
		"closed": func(t *testing.T, w *kit.World) error {
			c, _ := w.Client()
			c.Close()
			_, err := c.NewMutex("other").TryLock(background)
			kit.WantError(t, err, holdfast.ErrClosed)
			return err
		},
	}
	for name, other := range causes {
		t.Run(name, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				l, cause := w.Lock(c), other(t, w)
				h := kit.Must(t)(l.Lock(background))
				ended, end := context.WithCancelCause(background)
				end(cause)
				for what, call := range map[string]func() error{
					"Lock":        func() error { _, err := l.Lock(ended); return err },
					"TryLock":     func() error { _, err := l.TryLock(ended); return err },
					"Extend":      func() error { return h.Extend(ended, time.Minute) },
					"Inspect":     func() error { _, err := l.Inspect(ended); return err },
					"ForceUnlock": func() error { _, err := l.ForceUnlock(ended); return err },
				} {
					t.Log(what)
					kit.WantError(t, call(), context.Canceled, cause)
				}
				kit.Unlock(t, h)

				// While it waits for its owner's turn.
				ctx, end := context.WithCancelCause(holdfast.WithOwner(background, c.NewOwner()))
				kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
				first := kit.Begin(func() (*holdfast.Hold, error) { return l.Lock(ctx) })
				second := kit.Begin(func() (*holdfast.Hold, error) { return l.Lock(ctx, holdfast.Wait(time.Minute)) })
				began := time.Now()
				end(cause)
				synctest.Wait()
				for _, call := range []<-chan kit.Result{first, second} {
					got := <-call
					kit.WantError(t, got.Err, context.Canceled, cause)
				}
				kit.Took(t, time.Since(began), 0, 0, "they gave up %v late")
				time.Sleep(time.Minute)
			})
		})
	}
}

// What was lost on its way to Redis took nothing, whatever its context ends with.
func TestForceUnlockEndsWithAnotherCallsError(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		h := kit.Must(t)(w.Lock(other).Lock(background))
		ctx, end := context.WithCancelCause(background)
		kit.Once(d, "force", memdriver.Fault{LoseRequest: true})
		took := make(chan bool)
		go func() {
			done, err := w.Lock(c).ForceUnlock(ctx)
			kit.WantError(t, err, context.Canceled, holdfast.ErrUntold)
			took <- done
		}()
		synctest.Wait()
		end(fmt.Errorf("another call's: %w", holdfast.ErrUntold))
		if <-took {
			t.Error("it says that it took the lock")
		}
		kit.Unlock(t, h)
	})
}

// The same for what has no owner: nothing was sent.
func TestSemaphoreEndsWithAnotherCallsError(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewUnleasedSemaphore("s")
		ended, end := context.WithCancelCause(background)
		end(holdfast.ErrUntold)
		for what, call := range map[string]func() error{
			"TrySetPermits": func() error { _, err := s.TrySetPermits(ended, 3); return err },
			"Delete":        func() error { _, err := s.Delete(ended); return err },
			"Drain":         func() error { _, err := s.Drain(ended); return err },
			"Expire":        func() error { _, err := s.Expire(ended, time.Minute); return err },
		} {
			t.Log(what)
			kit.WantError(t, call(), context.Canceled, holdfast.ErrUntold)
		}
	})
}

// TestHooksAreToldTheCallersContext: it goes on when the call's time is over.
func TestHooksAreToldTheCallersContext(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var told context.Context
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnRefuse: func(ctx context.Context, _ holdfast.Event) { told = ctx }}))
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
		if err := c.NewUnleasedSemaphore("s", holdfast.Permits(2)).Acquire(background, 1, holdfast.Wait(time.Second)); err == nil || told == nil || told.Err() != nil {
			t.Errorf("%v; the hook's context: %v", err, told)
		}
		d.SetFaults(nil)
	})
}

// TestALossIsNotTheCallersDeadline: the time of a renewal and that of its only attempt are over at once.
func TestALossIsNotTheCallersDeadline(t *testing.T) {
	for range 20 {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client(holdfast.WithLease(time.Second))
			h := kit.Must(t)(c.NewMutex("x").Lock(background))
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			<-h.Context().Done()
			err := h.Unlock()
			kit.WantError(t, err, holdfast.ErrLost)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Unlock: %v", err)
			}
			d.SetFaults(nil)
			time.Sleep(time.Minute)
		})
	}
}

// TestAnEarlierTryMayHaveHadItsEffect: of a call that is refused at its end, the reply to a try before that was lost.
func TestAnEarlierTryMayHaveHadItsEffect(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		c, d := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		waits := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background, holdfast.Wait(30*time.Second)) })
		var first, refused atomic.Bool
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "acquire" || refused.Load() {
				return memdriver.Fault{LoseReply: !first.Swap(true), LoseRequest: !refused.Load(), Refuse: kit.Refusal(refused.Load())}
			}
			return memdriver.Fault{}
		})
		d.LoseMessages(w.Kind.ByMessage) // or no call would be needed
		kit.Unlock(t, h)
		time.Sleep(10 * time.Second) // the call that had its effect is over
		refused.Store(true)
		got := <-waits
		var failed *holdfast.BackendError
		if !errors.As(got.Err, &failed) || !failed.MayHaveRun || !strings.Contains(failed.Error(), "OOM") {
			t.Errorf("%+v, %v", failed, got.Err)
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute) // it is taken back
		kit.Unlock(t, kit.Must(t)(w.Rival(other).TryLock(background)))
	})
}

// A renewal that Redis has refused had no effect, and one without an answer may have had it.
func TestRenewalSaysWhetherItMayHaveRun(t *testing.T) {
	for _, refused := range []bool{true, false} {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			h := kit.Must(t)(w.Lock(c).Lock(background))
			d.SetFaults(func(driver.Call) memdriver.Fault {
				return memdriver.Fault{Refuse: kit.Refusal(refused), LoseReply: !refused}
			})
			<-h.Context().Done()
			var failed *holdfast.BackendError
			if err := context.Cause(h.Context()); !errors.As(err, &failed) || failed.Op != "renew" || failed.MayHaveRun == refused {
				t.Errorf("refused %v: %v", refused, err)
			}
			d.SetFaults(nil)
			time.Sleep(time.Minute)
		})
	}
}

// TestAnotherTryMayHaveHadItsEffect: that of one who waits at the same client, which is told of its failure.
func TestAnotherTryMayHaveHadItsEffect(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		c, d := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		lock := func(wait time.Duration) func() (*holdfast.Hold, error) {
			return func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background, holdfast.Wait(wait)) }
		}
		first := kit.Begin(lock(30 * time.Second))
		var sent atomic.Int32
		d.SetFaults(func(driver.Call) memdriver.Fault {
			n := sent.Add(1)
			return memdriver.Fault{LoseReply: n == 1, Refuse: kit.Refusal(n > 1)}
		})
		second := kit.Begin(lock(9 * time.Second)) // the call with the lost reply is over then, and the next one is not
		d.LoseMessages(w.Kind.ByMessage)           // or no call would be needed
		kit.Unlock(t, h)
		mayHaveRun := 0 // it is one of them that has sent the first one
		for _, waits := range []<-chan kit.Result{first, second} {
			err := (<-waits).Err
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), "OOM") {
				t.Error(err)
			} else if failed.MayHaveRun {
				mayHaveRun++
			}
		}
		if mayHaveRun != 1 {
			t.Errorf("%d of two say that they may have had their effect", mayHaveRun)
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}

// TestARefusalOfSeveralLocksIsTold, whichever ends first, the wait or the time of a call.
func TestARefusalOfSeveralLocksIsTold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		second := w.Further()
		a, d := w.Client()
		b, e := second.Client()
		refuse := func(driver.Call) memdriver.Fault { return memdriver.Fault{Refuse: kit.Refusal(true)} }
		d.SetFaults(refuse)
		e.SetFaults(refuse)
		for what, l := range map[string]*holdfast.MultiLock{
			"one client":  holdfast.NewMultiLock(a.NewMutex("x"), a.NewMutex("y")),
			"two clients": holdfast.NewMultiLock(a.NewMutex("x"), b.NewMutex("y")),
			"RedLock":     holdfast.NewRedLock(a.NewMutex("x"), b.NewMutex("x")),
		} {
			for _, wait := range []time.Duration{500 * time.Millisecond, time.Minute} {
				_, err := l.Lock(background, holdfast.Wait(wait))
				var failed *holdfast.BackendError
				if !errors.As(err, &failed) || !strings.Contains(err.Error(), "OOM") || what != "RedLock" && failed.MayHaveRun {
					t.Errorf("%s, for %v: %v", what, wait, err)
				}
			}
			_, err := l.TryLock(background)
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), "OOM") || what != "RedLock" && failed.MayHaveRun {
				t.Errorf("%s, TryLock: %v", what, err)
			}
		}
		d.SetFaults(nil)
		e.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}

// TestTheLastRefusalIsTold: the one before it, that another holds the lock, is old by then.
func TestTheLastRefusalIsTold(t *testing.T) {
	for _, wait := range []time.Duration{3 * time.Second, 12 * time.Second} {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			other, _ := w.Client()
			c, d := w.Client()
			h := kit.Must(t)(w.Rival(other).Lock(background))
			waits := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background, holdfast.Wait(wait)) })
			time.Sleep(time.Second)
			kit.Silent(d, memdriver.Fault{Refuse: kit.Refusal(true)})
			d.LoseMessages(w.Kind.ByMessage) // or no call would be needed
			kit.Unlock(t, h)
			kit.WantBackend(t, wait.String(), (<-waits).Err, "OOM")
			d.SetFaults(nil)
			time.Sleep(time.Minute)
		})
	}
}

// TestTheReasonWithinSeveralLocks: of several locks of one name only the first is waited for. The others refuse.
func TestTheReasonWithinSeveralLocks(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		good, bad := kit.Several(w, 3), kit.Several(w.Further(), 3)
		bad.Fault(memdriver.Fault{Refuse: kit.Refusal(true)}, 0, 1, 2)
		for what, l := range map[string]*holdfast.MultiLock{
			"mutexes":  holdfast.NewMultiLock(good.Clients[0].NewMutex("y"), bad.Clients[0].NewMutex("y")),
			"RedLocks": holdfast.NewMultiLock(good.Redlock("x"), bad.Redlock("x")),
			"permits": holdfast.NewMultiLock(good.Clients[0].NewPermitSemaphore("s", holdfast.Permits(3)),
				bad.Clients[0].NewPermitSemaphore("s", holdfast.Permits(3))),
		} {
			_, err := l.Lock(background, holdfast.Wait(500*time.Millisecond))
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%s: %v", what, err)
			}
		}
		bad.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
		good.Worlds[0].Do("DEL", "s")
	})
}

// TestPartsThatAreLeft: some of several locks are acquired, and cannot be given back, or can, if not always before the call
// returns.
func TestPartsThatAreLeft(t *testing.T) {
	for _, left := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			s := kit.Several(w, 3, holdfast.WithTimeout(time.Second))
			for i, d := range s.Drivers {
				d.SetFaults(func(call driver.Call) memdriver.Fault {
					return memdriver.Fault{Refuse: kit.Refusal(i > 0), LoseRequest: left && call.Script.Name() != "acquire"}
				})
			}
			for what, l := range map[string]*holdfast.MultiLock{
				"multi-lock": holdfast.NewMultiLock(s.Clients[0].NewMutex("a"), s.Clients[1].NewMutex("b")),
				"RedLock":    s.Redlock("x"),
			} {
				for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
					_, err := l.Lock(background, holdfast.Wait(wait))
					stands := w.Do("KEYS", "[abx]") != ""
					var failed *holdfast.BackendError
					if !errors.As(err, &failed) || left && !stands || !failed.MayHaveRun {
						t.Errorf("%s, waiting for %v: something stands: %v, %v", what, wait, stands, err)
					}
					time.Sleep(time.Minute)
				}
			}
			for _, d := range s.Drivers {
				d.SetFaults(nil)
			}
			time.Sleep(time.Minute)
			s.WantFree(t)
		})
	}
}

// TestPartsOfAnEarlierTryThatAreLeft: a try has had one, which cannot be given back, and ended because another is held. The
// last one ends for another reason.
func TestPartsOfAnEarlierTryThatAreLeft(t *testing.T) {
	for _, redLock := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			s := kit.Several(w, 3, holdfast.WithTimeout(time.Second))
			var lockers []holdfast.Locker
			var held []*holdfast.Hold
			for i, c := range s.Clients {
				lockers = append(lockers, c.NewMutex("x"))
				if i > 0 {
					rival, _ := s.Worlds[i].Client()
					held = append(held, kit.Must(t)(rival.NewMutex("x").Lock(background)))
				}
			}
			l := holdfast.NewMultiLock(lockers...)
			if redLock {
				l = holdfast.NewRedLock(lockers...)
			}
			s.Drivers[0].SetFaults(func(call driver.Call) memdriver.Fault {
				return memdriver.Fault{LoseRequest: call.Script.Name() != "acquire"}
			})
			waits := kit.Begin(func() (*holdfast.Hold, error) { return l.Lock(background, holdfast.Wait(10*time.Second)) })
			time.Sleep(time.Second)
			s.Fault(memdriver.Fault{Refuse: kit.Refusal(true)}, 1, 2)
			err := (<-waits).Err
			w.WantReply("x", "KEYS", "*")
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !failed.MayHaveRun {
				t.Errorf("RedLock %t: %v", redLock, err)
			}
			s.Drivers[0].SetFaults(nil)
			s.Fault(memdriver.Fault{}, 1, 2)
			for _, h := range held {
				kit.Unlock(t, h)
			}
			time.Sleep(time.Minute)
			s.WantFree(t)
		})
	}
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
