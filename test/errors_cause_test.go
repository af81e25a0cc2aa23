package test

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
)

// The context of one call may have ended with the error of another, as those of a group do. That is its cause, and nothing
// that this call, or its client, has come to itself.
func TestAContextEndsWithAnotherCallsError(t *testing.T) {
	causes := map[string]func(t *testing.T, w *world) error{
		"no answer": func(t *testing.T, w *world) error {
			c, d := w.client()
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			_, err := c.NewMutex("other").TryLock(background)
			var backend *holdfast.BackendError
			if !errors.As(err, &backend) {
				t.Fatal(err)
			}
			return err
		},
		"what the error of a call wraps whose time was over": func(t *testing.T, w *world) error {
			c, d := w.client()
			h, start := must(t)(w.mutex(c, "other").Lock(background)), time.Now()
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
			unlock(t, h)
			return backend.Err
		},
		"untold": func(*testing.T, *world) error { return fmt.Errorf("another call's: %w", holdfast.ErrUntold) },
		"closed": func(t *testing.T, w *world) error {
			c, _ := w.client()
			c.Close()
			_, err := c.NewMutex("other").TryLock(background)
			wantError(t, err, holdfast.ErrClosed)
			return err
		},
	}
	for name, other := range causes {
		t.Run(name, func(t *testing.T) {
			fakeKinds(t, func(t *testing.T, w *world) {
				c, d := w.client()
				l, cause := w.lock(c), other(t, w)
				h := must(t)(l.Lock(background))
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
					wantError(t, call(), context.Canceled, cause)
				}
				unlock(t, h)

				// While it waits for its owner's turn.
				ctx, end := context.WithCancelCause(holdfast.WithOwner(background, c.NewOwner()))
				once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
				first := begin(func() (*holdfast.Hold, error) { return l.Lock(ctx) })
				second := begin(func() (*holdfast.Hold, error) { return l.Lock(ctx, holdfast.Wait(time.Minute)) })
				began := time.Now()
				end(cause)
				synctest.Wait()
				for _, call := range []<-chan result{first, second} {
					got := <-call
					wantError(t, got.err, context.Canceled, cause)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("they gave up %v late", took)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// What was lost on its way to Redis took nothing, whatever its context ends with.
func TestForceUnlockEndsWithAnotherCallsError(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		h := must(t)(w.lock(other).Lock(background))
		ctx, end := context.WithCancelCause(background)
		once(d, "force", memdriver.Fault{LoseRequest: true})
		took := make(chan bool)
		go func() {
			done, err := w.lock(c).ForceUnlock(ctx)
			wantError(t, err, context.Canceled, holdfast.ErrUntold)
			took <- done
		}()
		synctest.Wait()
		end(fmt.Errorf("another call's: %w", holdfast.ErrUntold))
		if <-took {
			t.Error("it says that it took the lock")
		}
		unlock(t, h)
	})
}

// The same for what has no owner: nothing was sent.
func TestSemaphoreEndsWithAnotherCallsError(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
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
			wantError(t, call(), context.Canceled, holdfast.ErrUntold)
		}
	})
}

// TestHooksAreToldTheCallersContext: it goes on when the call's time is over.
func TestHooksAreToldTheCallersContext(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		var told context.Context
		c, d := w.client(holdfast.WithHooks(holdfast.Hooks{OnRefuse: func(ctx context.Context, _ holdfast.Event) { told = ctx }}))
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
		fake(t, func(t *testing.T, w *world) {
			c, d := w.client(holdfast.WithLease(time.Second))
			h := must(t)(c.NewMutex("x").Lock(background))
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			<-h.Context().Done()
			err := h.Unlock()
			wantError(t, err, holdfast.ErrLost)
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
	fakeKinds(t, func(t *testing.T, w *world) {
		other, _ := w.client()
		c, d := w.client()
		h := must(t)(w.rival(other).Lock(background))
		waits := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(background, holdfast.Wait(30*time.Second)) })
		var first, refused atomic.Bool
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "acquire" || refused.Load() {
				return memdriver.Fault{LoseReply: !first.Swap(true), LoseRequest: !refused.Load(), Refuse: refusal(refused.Load())}
			}
			return memdriver.Fault{}
		})
		d.LoseMessages(w.kind.byMessage) // or no call would be needed
		unlock(t, h)
		time.Sleep(10 * time.Second) // the call that had its effect is over
		refused.Store(true)
		got := <-waits
		var failed *holdfast.BackendError
		if !errors.As(got.err, &failed) || !failed.MayHaveRun || !strings.Contains(failed.Error(), "OOM") {
			t.Errorf("%+v, %v", failed, got.err)
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute) // it is taken back
		unlock(t, must(t)(w.rival(other).TryLock(background)))
	})
}

// TestAnotherTryMayHaveHadItsEffect: that of one who waits at the same client, which is told of its failure.
func TestAnotherTryMayHaveHadItsEffect(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		other, _ := w.client()
		c, d := w.client()
		h := must(t)(w.rival(other).Lock(background))
		lock := func(wait time.Duration) func() (*holdfast.Hold, error) {
			return func() (*holdfast.Hold, error) { return w.lock(c).Lock(background, holdfast.Wait(wait)) }
		}
		first := begin(lock(30 * time.Second))
		var sent atomic.Int32
		d.SetFaults(func(driver.Call) memdriver.Fault {
			n := sent.Add(1)
			return memdriver.Fault{LoseReply: n == 1, Refuse: refusal(n > 1)}
		})
		second := begin(lock(9 * time.Second)) // the call with the lost reply is over then, and the next one is not
		d.LoseMessages(w.kind.byMessage)       // or no call would be needed
		unlock(t, h)
		mayHaveRun := 0 // it is one of them that has sent the first one
		for _, waits := range []<-chan result{first, second} {
			err := (<-waits).err
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

// refusal is that of a full memory, or nil.
func refusal(yes bool) error {
	if !yes {
		return nil
	}
	return driver.ServerError("OOM command not allowed", errors.New("OOM command not allowed"))
}

// TestARefusalOfSeveralLocksIsTold, whichever ends first, the wait or the time of a call.
func TestARefusalOfSeveralLocksIsTold(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		second := w.further()
		a, d := w.client()
		b, e := second.client()
		refuse := func(driver.Call) memdriver.Fault { return memdriver.Fault{Refuse: refusal(true)} }
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
		fakeKinds(t, func(t *testing.T, w *world) {
			other, _ := w.client()
			c, d := w.client()
			h := must(t)(w.rival(other).Lock(background))
			waits := begin(func() (*holdfast.Hold, error) { return w.lock(c).Lock(background, holdfast.Wait(wait)) })
			time.Sleep(time.Second)
			silent(d, memdriver.Fault{Refuse: refusal(true)})
			d.LoseMessages(w.kind.byMessage) // or no call would be needed
			unlock(t, h)
			wantBackend(t, wait.String(), (<-waits).err, "OOM")
			d.SetFaults(nil)
			time.Sleep(time.Minute)
		})
	}
}

// TestTheReasonWithinSeveralLocks: of several locks of one name only the first is waited for. The others refuse.
func TestTheReasonWithinSeveralLocks(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		good, bad := several(w, 3), several(w.further(), 3)
		bad.fault(memdriver.Fault{Refuse: refusal(true)}, 0, 1, 2)
		for what, l := range map[string]*holdfast.MultiLock{
			"mutexes":  holdfast.NewMultiLock(good.clients[0].NewMutex("y"), bad.clients[0].NewMutex("y")),
			"RedLocks": holdfast.NewMultiLock(good.redlock("x"), bad.redlock("x")),
			"permits": holdfast.NewMultiLock(good.clients[0].NewPermitSemaphore("s", holdfast.Permits(3)),
				bad.clients[0].NewPermitSemaphore("s", holdfast.Permits(3))),
		} {
			_, err := l.Lock(background, holdfast.Wait(500*time.Millisecond))
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%s: %v", what, err)
			}
		}
		bad.fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
		good.worlds[0].do("DEL", "s")
	})
}

// TestPartsThatAreLeft: some of several locks are acquired, and cannot be given back, or can, if not always before the call
// returns.
func TestPartsThatAreLeft(t *testing.T) {
	for _, left := range []bool{false, true} {
		fake(t, func(t *testing.T, w *world) {
			s := several(w, 3, holdfast.WithTimeout(time.Second))
			for i, d := range s.drivers {
				d.SetFaults(func(call driver.Call) memdriver.Fault {
					return memdriver.Fault{Refuse: refusal(i > 0), LoseRequest: left && call.Script.Name() != "acquire"}
				})
			}
			for what, l := range map[string]*holdfast.MultiLock{
				"multi-lock": holdfast.NewMultiLock(s.clients[0].NewMutex("a"), s.clients[1].NewMutex("b")),
				"RedLock":    s.redlock("x"),
			} {
				for _, wait := range []time.Duration{0, 500 * time.Millisecond} {
					_, err := l.Lock(background, holdfast.Wait(wait))
					stands := w.do("KEYS", "[abx]") != ""
					var failed *holdfast.BackendError
					if !errors.As(err, &failed) || left && !stands || !failed.MayHaveRun {
						t.Errorf("%s, waiting for %v: something stands: %v, %v", what, wait, stands, err)
					}
					time.Sleep(time.Minute)
				}
			}
			for _, d := range s.drivers {
				d.SetFaults(nil)
			}
			time.Sleep(time.Minute)
			s.wantFree(t)
		})
	}
}

// TestPartsOfAnEarlierTryThatAreLeft: a try has had one, which cannot be given back, and ended because another is held. The
// last one ends for another reason.
func TestPartsOfAnEarlierTryThatAreLeft(t *testing.T) {
	for _, redLock := range []bool{false, true} {
		fake(t, func(t *testing.T, w *world) {
			s := several(w, 3, holdfast.WithTimeout(time.Second))
			var lockers []holdfast.Locker
			var held []*holdfast.Hold
			for i, c := range s.clients {
				lockers = append(lockers, c.NewMutex("x"))
				if i > 0 {
					rival, _ := s.worlds[i].client()
					held = append(held, must(t)(rival.NewMutex("x").Lock(background)))
				}
			}
			l := holdfast.NewMultiLock(lockers...)
			if redLock {
				l = holdfast.NewRedLock(lockers...)
			}
			s.drivers[0].SetFaults(func(call driver.Call) memdriver.Fault {
				return memdriver.Fault{LoseRequest: call.Script.Name() != "acquire"}
			})
			waits := begin(func() (*holdfast.Hold, error) { return l.Lock(background, holdfast.Wait(10*time.Second)) })
			time.Sleep(time.Second)
			s.fault(memdriver.Fault{Refuse: refusal(true)}, 1, 2)
			err := (<-waits).err
			w.wantReply("x", "KEYS", "*")
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !failed.MayHaveRun {
				t.Errorf("RedLock %t: %v", redLock, err)
			}
			s.drivers[0].SetFaults(nil)
			s.fault(memdriver.Fault{}, 1, 2)
			for _, h := range held {
				unlock(t, h)
			}
			time.Sleep(time.Minute)
			s.wantFree(t)
		})
	}
}

// TestAWaitThatIsOverAtOnce is not its caller's giving up, even if a part has not begun by then. That takes real time.
func TestAWaitThatIsOverAtOnce(t *testing.T) {
	lockers := make([]holdfast.Locker, 3)
	for i := range lockers {
		server, err := memdriver.NewServer()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		c, err := testclient.New(server.Driver())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		lockers[i] = c.NewMutex("x")
	}
	l := holdfast.NewRedLock(lockers...)
	for i := range 3000 {
		h, err := l.Lock(background, holdfast.Wait(1+time.Duration(i)*300*time.Nanosecond))
		switch {
		case err == nil:
			unlock(t, h)
		case errors.Is(err, context.Canceled):
			t.Fatal(err)
		}
	}
}
