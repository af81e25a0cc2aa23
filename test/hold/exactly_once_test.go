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
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Each call has its effect exactly once, whatever happens to its messages.

// TestS13_FaultsHaveNoSecondEffect runs lock, lock, unlock, unlock with each
// fault at each of the four, and checks the count after each.
func TestS13_FaultsHaveNoSecondEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		for step := range 4 {
			t.Run(fmt.Sprintf("%s/step %d", name, step), func(t *testing.T) {
				kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					fourSteps(t, w, c, func(i int) {
						d.SetFaults(nil)
						if i == step {
							kit.Once(d, steps(w.Kind)[i], fault)
						}
					})
					time.Sleep(time.Minute) // whatever was delayed has come by now
					w.WantCount("x", holdfast.Owner{}, 0)
					seen := kit.Count(d)
					time.Sleep(time.Hour)
					if n := seen.All(); n != 0 {
						t.Errorf("%d calls after the last unlock", n)
					}
				})
			})
		}
	}
}

// steps are what fourSteps asks for.
func steps(k *kit.Kind) []string {
	if k.Nests {
		return []string{"acquire", "acquire", "release", "release"}
	}
	return []string{"acquire", "release", "acquire", "release"}
}

// fourSteps takes a lock twice and gives it back twice, nested if it nests, and
// checks the count after each step, at once and a while later.
func fourSteps(t *testing.T, w *kit.World, c *holdfast.Client, before func(step int)) {
	t.Helper()
	mu := w.Lock(c)
	if !w.Kind.Nests {
		ctx := holdfast.WithOwner(background, c.NewOwner())
		for i := range 2 {
			before(2 * i)
			h := kit.Must(t)(mu.Lock(ctx))
			w.WantCount("x", h.Owner(), 1)
			time.Sleep(15 * time.Second)
			w.WantCount("x", h.Owner(), 1)
			before(2*i + 1)
			kit.Unlock(t, h)
			w.WantCount("x", h.Owner(), 0)
			// A request that comes again after its answer, while the same owner has
			// gone through the same counts, is not in the promise; see doc.go.
			time.Sleep(time.Second)
		}
		return
	}
	before(0)
	outer := kit.Must(t)(mu.Lock(background))
	w.WantCount("x", outer.Owner(), 1)
	before(1)
	inner := kit.Must(t)(mu.Lock(outer.Context()))
	w.WantCount("x", outer.Owner(), 2)
	time.Sleep(15 * time.Second)
	w.WantCount("x", outer.Owner(), 2)
	before(2)
	kit.Unlock(t, inner)
	w.WantCount("x", outer.Owner(), 1)
	time.Sleep(15 * time.Second)
	w.WantCount("x", outer.Owner(), 1)
	if err := outer.Context().Err(); err != nil {
		t.Errorf("the outer hold's context: %v", context.Cause(outer.Context()))
	}
	before(3)
	kit.Unlock(t, outer)
	w.WantCount("x", outer.Owner(), 0)
}

// A caller that is cancelled leaves what stood before, at whichever moment.
func TestS27_CancelledCallersLeaveNothing(t *testing.T) {
	slow := memdriver.Fault{DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond}
	kinds := map[string]memdriver.Fault{
		"slow":       slow,
		"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
		"very late":  {DelayRequest: 2200 * time.Millisecond},
		"repeated":   {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond, Repeat: true, RepeatAfter: 5 * time.Millisecond},
	}
	for name, fault := range kinds {
		for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 19 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/cancelled after %v", name, after), func(t *testing.T) {
				kit.FakeKinds(t, func(t *testing.T, w *kit.World) { cancelled(t, w, fault, after, false) })
			})
			t.Run(fmt.Sprintf("%s/cancelled after %v/nested", name, after), func(t *testing.T) {
				kit.FakeNesting(t, func(t *testing.T, w *kit.World) { cancelled(t, w, fault, after, true) })
			})
		}
	}
}

func cancelled(t *testing.T, w *kit.World, fault memdriver.Fault, after time.Duration, nested bool) {
	c, d := w.Client()
	mu := w.Lock(c)
	outer, stands := (*holdfast.Hold)(nil), 0
	parent := background
	if nested {
		outer, stands = kit.Must(t)(mu.Lock(background)), 1
		parent = outer.Context()
	}
	kit.Once(d, "acquire", fault)
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(parent)
	time.AfterFunc(after, func() { cancel(why) })
	start := time.Now()
	_, err := mu.Lock(ctx)
	kit.WantError(t, err, context.Canceled, why)
	if took := time.Since(start); took != after {
		t.Errorf("returned %v after the start, want %v", took, after)
	}
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up and being refused are the same error: %v", err)
	}
	time.Sleep(5 * time.Second)
	if nested {
		w.WantCount("x", outer.Owner(), stands)
		kit.Unlock(t, outer)
	}
	w.WantCount("x", holdfast.Owner{}, 0)
}

// The answer and the cancellation come at the very same moment: the caller gets
// the hold or the error, and with the error nothing stays.
func TestS27_CancelledAtTheMomentOfTheAnswer(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for range 40 {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				kit.Silent(d, memdriver.Fault{DelayReply: 10 * time.Millisecond})
				ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
				defer cancel()
				if h, err := w.Lock(c).Lock(ctx); err == nil {
					kit.Unlock(t, h)
				} else {
					kit.WantError(t, err, context.DeadlineExceeded)
				}
				time.Sleep(time.Second)
				w.WantCount("x", holdfast.Owner{}, 0)
			})
		}
	})
}

// A lock that was abandoned is free for the next at once, not after its lease.
func TestAbandonedAcquireIsGivenBackAtOnce(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.Once(d, "acquire", memdriver.Fault{DelayReply: 100 * time.Millisecond})
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		start := time.Now()
		other, _ := w.Client()
		kit.Unlock(t, kit.Must(t)(w.Rival(other).Lock(background)))
		bound := 60 * time.Millisecond
		if w.Kind.Polls {
			bound += 128 * time.Millisecond // the longest pause
		}
		kit.Took(t, time.Since(start), 0, bound, "the next owner waited %v")
	})
}

// An owner may lock again while its last unlock is still on its way: the old
// release must not take the new hold away.
func TestLateReleaseDoesNotHitTheNextHold(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for _, delay := range []time.Duration{time.Millisecond, 2100 * time.Millisecond, 2400 * time.Millisecond, time.Minute} {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				mu := w.Lock(c)
				ctx := holdfast.WithOwner(background, c.NewOwner())
				first := kit.Must(t)(mu.Lock(ctx))
				kit.Once(d, "release", memdriver.Fault{DelayRequest: delay})
				kit.Unlock(t, first)
				d.SetFaults(nil)
				second := kit.Must(t)(mu.Lock(ctx))
				time.Sleep(2 * time.Minute)
				w.WantCount("x", second.Owner(), 1)
				if err := second.Context().Err(); err != nil {
					t.Errorf("delay %v: the second hold: %v", delay, context.Cause(second.Context()))
				}
				kit.Unlock(t, second)
			})
		}
	})
}

// Redis is away for good: calls end within their bounds, and what they left
// unsaid is said when it is back.
func TestUnlockWithoutRedisIsBoundedAndMadeUpFor(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		h := kit.Must(t)(w.Lock(c).Lock(background))
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
		start := time.Now()
		err := h.Unlock()
		var failed *holdfast.BackendError
		if !errors.As(err, &failed) || !failed.MayHaveRun || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		kit.Took(t, time.Since(start), 0, holdfast.DefaultTimeout, "Unlock took %v")
		kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
		time.Sleep(time.Second)
		d.SetFaults(nil)
		time.Sleep(3 * time.Second)
		w.WantCount("x", h.Owner(), 0)
	})
}

// The watchdog of a hold ends with it: no renewal comes after Unlock was called,
// at whatever moment of a renewal that is.
func TestNoRenewalAfterUnlock(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for at := 9900 * time.Millisecond; at < 10200*time.Millisecond; at += 7 * time.Millisecond {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				var renewals atomic.Int32
				var ended atomic.Bool
				d.SetFaults(func(call driver.Call) memdriver.Fault {
					if ended.Load() && call.Script.Name() == "renew" {
						renewals.Add(1)
					}
					return memdriver.Fault{DelayRequest: 60 * time.Millisecond, DelayReply: 60 * time.Millisecond}
				})
				h := kit.Must(t)(w.Lock(c).Lock(background))
				time.Sleep(at)
				synctest.Wait()
				ended.Store(true)
				kit.Unlock(t, h)
				w.WantCount("x", h.Owner(), 0)
				time.Sleep(time.Hour)
				w.WantCount("x", h.Owner(), 0)
				if n := renewals.Load(); n > 0 {
					t.Errorf("unlocked at %v: %d renewals after it", at, n)
				}
			})
		}
	})
}

// One who stands in line gives up, at whichever moment: before its place has
// come, while a send is under way, while it sleeps, and around the moment at
// which the lock becomes free. It gets the hold or the error; with the error
// nothing of it stays, and the lock is the next one's at once.
func TestS27_CancelledWaitersLeaveNothing(t *testing.T) {
	const released = 60 * time.Millisecond
	moments := []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond}
	for after := -2 * time.Millisecond; after <= 24*time.Millisecond; after += 2 * time.Millisecond {
		moments = append(moments, released+after)
	}
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for name, fault := range map[string]memdriver.Fault{
			"slow":      {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
			"no answer": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
			"repeated":  {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond, Repeat: true, RepeatAfter: 7 * time.Millisecond},
		} {
			for _, after := range moments {
				t.Run(fmt.Sprintf("%s/%v", name, after), func(t *testing.T) {
					kit.FakeKind(t, k, func(t *testing.T, w *kit.World) { cancelledWaiter(t, w, fault, after, released) })
				})
			}
		}
	})
}

func cancelledWaiter(t *testing.T, w *kit.World, fault memdriver.Fault, after, released time.Duration) {
	other, _ := w.Client()
	holder := kit.Must(t)(w.Rival(other).Lock(background))
	c, d := w.Client()
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		if call.Script.Name() == "acquire" {
			return fault
		}
		return memdriver.Fault{}
	})
	time.AfterFunc(released, func() { kit.Unlock(t, holder) })
	ctx, cancel := context.WithTimeout(background, after)
	defer cancel()
	start := time.Now()
	h, err := w.Lock(c).Lock(ctx)
	kit.Took(t, time.Since(start), 0, after, "returned after %v")
	if err == nil {
		kit.Unlock(t, h)
	} else {
		kit.WantError(t, err, context.DeadlineExceeded)
	}
	d.SetFaults(nil)
	time.Sleep(time.Until(start.Add(released)))
	synctest.Wait()
	start = time.Now()
	kit.Unlock(t, kit.Must(t)(w.Rival(other).Lock(background)))
	most := 200 * time.Millisecond
	if w.Kind.Queues {
		most = 3 * time.Second // a try that was not answered may have taken a place, until its limit
	}
	kit.Took(t, time.Since(start), 0, most, "the next one waited %v")
	time.Sleep(5 * time.Second)
	w.WantNothing()
	if n := w.Listeners(); n != 0 {
		t.Errorf("%d listen when all is over", n)
	}
}

// What was refused has no effect later: an earlier send of the call may still be under way, and what it was
// refused for may go before it arrives.
func TestRefusedHasNoEffectLater(t *testing.T) {
	for name, test := range map[string]struct {
		before []string // the command that makes the object
		send   string
		call   func(c *holdfast.Client) (bool, error)
		after  []string // and the one that makes the call possible
		value  string   // then, if the call has had its effect
	}{
		"latch": {
			before: []string{"SET", "x", "1"}, send: "set", after: []string{"DEL", "x"}, value: "2",
			call: func(c *holdfast.Client) (bool, error) { return c.NewLatch("x").TrySetCount(background, 2) },
		},
		"permits": {
			before: []string{"SET", "x", "1"}, send: "set", after: []string{"DEL", "x"}, value: "2",
			call: func(c *holdfast.Client) (bool, error) {
				return c.NewPermitSemaphore("x").TrySetPermits(background, 2)
			},
		},
		"unleased permits": {
			before: []string{"SET", "x", "1"}, send: "set", after: []string{"DEL", "x"}, value: "2",
			call: func(c *holdfast.Client) (bool, error) {
				return c.NewUnleasedSemaphore("x").TrySetPermits(background, 2)
			},
		},
		"release": {
			before: []string{"DEL", "x"}, send: "add", after: []string{"SET", "x", "1"}, value: "3",
			call: func(c *holdfast.Client) (bool, error) { return c.NewUnleasedSemaphore("x").ReleaseIfExists(2) },
		},
	} {
		for _, goes := range []time.Duration{2050 * time.Millisecond, time.Hour} {
			t.Run(fmt.Sprint(name, " possible after ", goes), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					w.Do(test.before...)
					kit.Once(d, test.send, memdriver.Fault{DelayRequest: 2100 * time.Millisecond}) // the second send is answered after 2 s
					goes := time.AfterFunc(goes, func() { w.Do(test.after...) })
					defer goes.Stop()
					done, err := test.call(c)
					kit.OK(t, err)
					time.Sleep(5 * time.Second)
					if has := w.Do("GET", "x") == test.value; has != done {
						t.Errorf("it says %v, and in Redis stands %q", done, w.Do("GET", "x"))
					}
					w.Do("DEL", "x")
					time.Sleep(kit.CallsLive)
				})
			})
		}
	}
}

// A waiter that is refused remembers the sends before that which were not answered: one of them may yet be
// let in, when the waiter has given up.
func TestRefusedWaiterRemembersItsSends(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		held := kit.Must(t)(other.NewMutex("x").Lock(background))
		c, d := w.Client()
		d.LoseMessages(true)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2100 * time.Millisecond}) // the second send is refused after 2 s
		ctx, cancel := context.WithCancel(background)
		defer time.AfterFunc(2070*time.Millisecond, cancel).Stop()
		time.AfterFunc(2050*time.Millisecond, func() { kit.Unlock(t, held) })
		if _, err := c.NewMutex("x").Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock: %v", err)
		}
		time.Sleep(time.Second)
		w.WantReply("0", "EXISTS", "x")
		d.LoseMessages(false)
	})
}

// What was deleted, or given a time to live, is that once: a send of the call that was given up does not hit what is
// made next.
func TestDeletedOnce(t *testing.T) {
	for name, call := range map[string]func(s *holdfast.PermitSemaphore) (bool, error){
		"delete": func(s *holdfast.PermitSemaphore) (bool, error) { return s.Delete(background) },
		"expire": func(s *holdfast.PermitSemaphore) (bool, error) { return s.Expire(background, time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				s := c.NewPermitSemaphore("x")
				kit.OK(t, s.SetPermits(background, 1))
				kit.Once(d, name, memdriver.Fault{DelayRequest: 2100 * time.Millisecond}) // the second send is answered after 2 s
				if was, err := call(s); !was || err != nil {
					t.Errorf("%s: %v, %v", name, was, err)
				}
				time.Sleep(time.Millisecond)
				if set, err := s.TrySetPermits(background, 2); !set || err != nil {
					t.Fatal(set, err)
				}
				time.Sleep(time.Second)
				w.WantReply("2", "GET", "x")
				w.Do("DEL", "x")
				time.Sleep(kit.CallsLive)
			})
		})
	}
}

// A short timeout does not have Redis forget a call before a send of it can be late.
func TestRememberedForLongEnough(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithTimeout(10 * time.Millisecond))
		s := c.NewUnleasedSemaphore("x")
		w.Do("SET", "x", "1")
		kit.Once(d, "add", memdriver.Fault{DelayRequest: 200 * time.Millisecond})
		var backend *holdfast.BackendError
		if err := s.Release(1); !errors.As(err, &backend) || !backend.MayHaveRun {
			t.Errorf("Release: %v", err) // it goes on in the background
		}
		time.Sleep(time.Second)
		w.WantReply("2", "GET", "x")
		w.Do("DEL", "x")
		time.Sleep(time.Minute)
	})
}

// Before its first answer a client does not know what time it is in Redis. A send whose limit is minutes off may come as
// late, and Redis remembers its call for longer.
func TestRememberedWithClocksApart(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		w.Server.SetClock(-2 * time.Minute)
		c, d := w.Client()
		w.Do("SET", "x", "1")
		kit.Once(d, "add", memdriver.Fault{DelayRequest: 100 * time.Second})
		kit.OK(t, c.NewUnleasedSemaphore("x").Release(1))
		w.WantReply("2", "GET", "x")
		time.Sleep(100 * time.Second)
		w.WantReply("2", "GET", "x")
		w.Do("DEL", "x")
		time.Sleep(5 * time.Minute)
	})
}

// A nested Lock gives back what another goroutine's Unlock has left to it. An attempt of an earlier Lock of
// the same owner, which is still on its way, must not raise the count again behind that.
func TestAttemptBehindALaterRelease(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithTimeout(300 * time.Millisecond))
		outer := kit.Must(t)(w.Lock(c).Lock(background))
		ctx := holdfast.WithOwner(background, outer.Owner())
		inner := kit.Must(t)(w.Lock(c).Lock(ctx))
		var acquires, releases atomic.Int32
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			switch {
			case strings.HasSuffix(call.Script.Name(), "acquire") && acquires.Add(1) == 1:
				f.DelayRequest = 250 * time.Millisecond // it is sent again after 100 ms
			case strings.HasSuffix(call.Script.Name(), "release") && releases.Add(1) == 1:
				f.LoseReply = true
			}
			return f
		})
		lock := func() <-chan *holdfast.Hold {
			held := make(chan *holdfast.Hold, 1)
			go func() {
				defer close(held)
				if h, err := w.Lock(c).Lock(ctx); err == nil {
					held <- h
				} else {
					t.Error(err)
				}
			}()
			synctest.Wait()
			return held
		}
		unlocking := func(h *holdfast.Hold) <-chan error {
			ended := kit.Aside(h.Unlock)
			return ended
		}
		slow := lock()
		last := lock()          // waits until the other one is over, and then gives back
		one := unlocking(inner) // this one, whose answer is lost,
		held := <-slow
		time.Sleep(200 * time.Millisecond) // and after the attempt has arrived
		other := unlocking(held)           // that one
		for _, ended := range []<-chan error{one, other} {
			if err := <-ended; errors.Is(err, holdfast.ErrLost) { // it may say that it does not know
				t.Errorf("Unlock: %v", err)
			}
		}
		for h := range last {
			kit.Unlock(t, h)
		}
		kit.Unlock(t, outer)
	})
}
