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
	"github.com/holdfast-go/holdfast/memdriver"
)

// Each call has its effect exactly once, whatever happens to its messages.

// faults are what can happen to the first send of a call, beyond the timeout of
// a send (2 s) where that matters.
var faults = map[string]memdriver.Fault{
	"request lost":                       {LoseRequest: true},
	"request delayed":                    {DelayRequest: 2100 * time.Millisecond},
	"request much delayed":               {DelayRequest: 10 * time.Second},
	"reply lost":                         {LoseReply: true},
	"reply delayed":                      {DelayReply: 3 * time.Second},
	"reply much delayed":                 {DelayReply: 20 * time.Second},
	"request delivered twice":            {Repeat: true},
	"request delivered twice, far apart": {Repeat: true, RepeatAfter: 4 * time.Second},
	"delivered twice, reply lost":        {Repeat: true, RepeatAfter: time.Second, LoseReply: true},
	"refused":                            {Refuse: errors.New("connection refused")},
}

// once makes a fault happen to the next call of a script.
func once(d *memdriver.Driver, script string, f memdriver.Fault) {
	onceFrom(d, script, time.Time{}, f)
}

// onceFrom is once for the first call from then on; those before it are refused.
func onceFrom(d *memdriver.Driver, script string, from time.Time, f memdriver.Fault) {
	var hit atomic.Bool
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		switch {
		case call.Script.Name() != script:
		case time.Now().Before(from):
			return memdriver.Fault{Refuse: errors.New("connection refused")}
		case !hit.Swap(true):
			return f
		}
		return memdriver.Fault{}
	})
}

// TestS13_FaultsHaveNoSecondEffect runs lock, lock, unlock, unlock with each
// fault at each of the four, and checks the count after each.
func TestS13_FaultsHaveNoSecondEffect(t *testing.T) {
	for name, fault := range faults {
		for step := range 4 {
			t.Run(fmt.Sprintf("%s/step %d", name, step), func(t *testing.T) {
				fakeKinds(t, func(t *testing.T, w *world) {
					c, d := w.client()
					fourSteps(t, w, c, func(i int) {
						d.SetFaults(nil)
						if i == step {
							once(d, steps(w.kind)[i], fault)
						}
					})
					time.Sleep(time.Minute) // whatever was delayed has come by now
					w.wantCount("x", holdfast.Owner{}, 0)
					seen := count(d)
					time.Sleep(time.Hour)
					if n := seen.all(); n != 0 {
						t.Errorf("%d calls after the last unlock", n)
					}
				})
			})
		}
	}
}

// steps are what fourSteps asks for.
func steps(k *kind) []string {
	if k.nests {
		return []string{"acquire", "acquire", "release", "release"}
	}
	return []string{"acquire", "release", "acquire", "release"}
}

// fourSteps takes a lock twice and gives it back twice, nested if it nests, and
// checks the count after each step, at once and a while later.
func fourSteps(t *testing.T, w *world, c *holdfast.Client, before func(step int)) {
	t.Helper()
	mu := w.lock(c)
	if !w.kind.nests {
		ctx := holdfast.WithOwner(background, c.NewOwner())
		for i := range 2 {
			before(2 * i)
			h := must(t)(mu.Lock(ctx))
			w.wantCount("x", h.Owner(), 1)
			time.Sleep(15 * time.Second)
			w.wantCount("x", h.Owner(), 1)
			before(2*i + 1)
			unlock(t, h)
			w.wantCount("x", h.Owner(), 0)
			// A request that comes again after its answer, while the same owner has
			// gone through the same counts, is not in the promise; see doc.go.
			time.Sleep(time.Second)
		}
		return
	}
	before(0)
	outer := must(t)(mu.Lock(background))
	w.wantCount("x", outer.Owner(), 1)
	before(1)
	inner := must(t)(mu.Lock(outer.Context()))
	w.wantCount("x", outer.Owner(), 2)
	time.Sleep(15 * time.Second)
	w.wantCount("x", outer.Owner(), 2)
	before(2)
	unlock(t, inner)
	w.wantCount("x", outer.Owner(), 1)
	time.Sleep(15 * time.Second)
	w.wantCount("x", outer.Owner(), 1)
	if err := outer.Context().Err(); err != nil {
		t.Errorf("the outer hold's context: %v", context.Cause(outer.Context()))
	}
	before(3)
	unlock(t, outer)
	w.wantCount("x", outer.Owner(), 0)
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
				fakeKinds(t, func(t *testing.T, w *world) { cancelled(t, w, fault, after, false) })
			})
			t.Run(fmt.Sprintf("%s/cancelled after %v/nested", name, after), func(t *testing.T) {
				fakeNesting(t, func(t *testing.T, w *world) { cancelled(t, w, fault, after, true) })
			})
		}
	}
}

func cancelled(t *testing.T, w *world, fault memdriver.Fault, after time.Duration, nested bool) {
	c, d := w.client()
	mu := w.lock(c)
	outer, stands := (*holdfast.Hold)(nil), 0
	parent := background
	if nested {
		outer, stands = must(t)(mu.Lock(background)), 1
		parent = outer.Context()
	}
	once(d, "acquire", fault)
	why := errors.New("changed my mind")
	ctx, cancel := context.WithCancelCause(parent)
	time.AfterFunc(after, func() { cancel(why) })
	start := time.Now()
	_, err := mu.Lock(ctx)
	wantError(t, err, context.Canceled, why)
	if took := time.Since(start); took != after {
		t.Errorf("returned %v after the start, want %v", took, after)
	}
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up and being refused are the same error: %v", err)
	}
	time.Sleep(5 * time.Second)
	if nested {
		w.wantCount("x", outer.Owner(), stands)
		unlock(t, outer)
	}
	w.wantCount("x", holdfast.Owner{}, 0)
}

// The answer and the cancellation come at the very same moment: the caller gets
// the hold or the error, and with the error nothing stays.
func TestS27_CancelledAtTheMomentOfTheAnswer(t *testing.T) {
	forKinds(t, func(t *testing.T, k *kind) {
		for range 40 {
			fakeKind(t, k, func(t *testing.T, w *world) {
				c, d := w.client()
				silent(d, memdriver.Fault{DelayReply: 10 * time.Millisecond})
				ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
				defer cancel()
				if h, err := w.lock(c).Lock(ctx); err == nil {
					unlock(t, h)
				} else {
					wantError(t, err, context.DeadlineExceeded)
				}
				time.Sleep(time.Second)
				w.wantCount("x", holdfast.Owner{}, 0)
			})
		}
	})
}

// A lock that was abandoned is free for the next at once, not after its lease.
func TestAbandonedAcquireIsGivenBackAtOnce(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		once(d, "acquire", memdriver.Fault{DelayReply: 100 * time.Millisecond})
		ctx, cancel := context.WithTimeout(background, 50*time.Millisecond)
		defer cancel()
		_, err := w.lock(c).Lock(ctx)
		wantError(t, err, context.DeadlineExceeded)
		start := time.Now()
		other, _ := w.client()
		unlock(t, must(t)(w.rival(other).Lock(background)))
		bound := 60 * time.Millisecond
		if w.kind.polls {
			bound += 128 * time.Millisecond // the longest pause
		}
		if took := time.Since(start); took > bound {
			t.Errorf("the next owner waited %v", took)
		}
	})
}

// An owner may lock again while its last unlock is still on its way: the old
// release must not take the new hold away.
func TestLateReleaseDoesNotHitTheNextHold(t *testing.T) {
	forKinds(t, func(t *testing.T, k *kind) {
		for _, delay := range []time.Duration{time.Millisecond, 2100 * time.Millisecond, 2400 * time.Millisecond, time.Minute} {
			fakeKind(t, k, func(t *testing.T, w *world) {
				c, d := w.client()
				mu := w.lock(c)
				ctx := holdfast.WithOwner(background, c.NewOwner())
				first := must(t)(mu.Lock(ctx))
				once(d, "release", memdriver.Fault{DelayRequest: delay})
				unlock(t, first)
				d.SetFaults(nil)
				second := must(t)(mu.Lock(ctx))
				time.Sleep(2 * time.Minute)
				w.wantCount("x", second.Owner(), 1)
				if err := second.Context().Err(); err != nil {
					t.Errorf("delay %v: the second hold: %v", delay, context.Cause(second.Context()))
				}
				unlock(t, second)
			})
		}
	})
}

// Redis is away for good: calls end within their bounds, and what they left
// unsaid is said when it is back.
func TestUnlockWithoutRedisIsBoundedAndMadeUpFor(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		c, d := w.client()
		h := must(t)(w.lock(c).Lock(background))
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
		start := time.Now()
		err := h.Unlock()
		var failed *holdfast.BackendError
		if !errors.As(err, &failed) || !failed.MayHaveRun || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		if took := time.Since(start); took > holdfast.DefaultTimeout {
			t.Errorf("Unlock took %v", took)
		}
		wantError(t, h.Unlock(), holdfast.ErrNotHeld)
		time.Sleep(time.Second)
		d.SetFaults(nil)
		time.Sleep(3 * time.Second)
		w.wantCount("x", h.Owner(), 0)
	})
}

// The watchdog of a hold ends with it: no renewal comes after Unlock was called,
// at whatever moment of a renewal that is.
func TestNoRenewalAfterUnlock(t *testing.T) {
	forKinds(t, func(t *testing.T, k *kind) {
		for at := 9900 * time.Millisecond; at < 10200*time.Millisecond; at += 7 * time.Millisecond {
			fakeKind(t, k, func(t *testing.T, w *world) {
				c, d := w.client()
				var renewals atomic.Int32
				var ended atomic.Bool
				d.SetFaults(func(call driver.Call) memdriver.Fault {
					if ended.Load() && call.Script.Name() == "renew" {
						renewals.Add(1)
					}
					return memdriver.Fault{DelayRequest: 60 * time.Millisecond, DelayReply: 60 * time.Millisecond}
				})
				h := must(t)(w.lock(c).Lock(background))
				time.Sleep(at)
				synctest.Wait()
				ended.Store(true)
				unlock(t, h)
				w.wantCount("x", h.Owner(), 0)
				time.Sleep(time.Hour)
				w.wantCount("x", h.Owner(), 0)
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
	forKinds(t, func(t *testing.T, k *kind) {
		for name, fault := range map[string]memdriver.Fault{
			"slow":      {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
			"no answer": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
			"repeated":  {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond, Repeat: true, RepeatAfter: 7 * time.Millisecond},
		} {
			for _, after := range moments {
				t.Run(fmt.Sprintf("%s/%v", name, after), func(t *testing.T) {
					fakeKind(t, k, func(t *testing.T, w *world) { cancelledWaiter(t, w, fault, after, released) })
				})
			}
		}
	})
}

func cancelledWaiter(t *testing.T, w *world, fault memdriver.Fault, after, released time.Duration) {
	other, _ := w.client()
	holder := must(t)(w.rival(other).Lock(background))
	c, d := w.client()
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		if call.Script.Name() == "acquire" {
			return fault
		}
		return memdriver.Fault{}
	})
	time.AfterFunc(released, func() { unlock(t, holder) })
	ctx, cancel := context.WithTimeout(background, after)
	defer cancel()
	start := time.Now()
	h, err := w.lock(c).Lock(ctx)
	if took := time.Since(start); took > after {
		t.Errorf("returned after %v", took)
	}
	if err == nil {
		unlock(t, h)
	} else {
		wantError(t, err, context.DeadlineExceeded)
	}
	d.SetFaults(nil)
	time.Sleep(time.Until(start.Add(released)))
	synctest.Wait()
	start = time.Now()
	unlock(t, must(t)(w.rival(other).Lock(background)))
	most := 200 * time.Millisecond
	if w.kind.queues {
		most = 3 * time.Second // a try that was not answered may have taken a place, until its limit
	}
	if took := time.Since(start); took > most {
		t.Errorf("the next one waited %v", took)
	}
	time.Sleep(5 * time.Second)
	w.wantNothing()
	if n := w.listeners(); n != 0 {
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
				fake(t, func(t *testing.T, w *world) {
					c, d := w.client()
					w.do(test.before...)
					once(d, test.send, memdriver.Fault{DelayRequest: 2100 * time.Millisecond}) // the second send is answered after 2 s
					goes := time.AfterFunc(goes, func() { w.do(test.after...) })
					defer goes.Stop()
					done, err := test.call(c)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
					if has := w.do("GET", "x") == test.value; has != done {
						t.Errorf("it says %v, and in Redis stands %q", done, w.do("GET", "x"))
					}
					w.do("DEL", "x")
					time.Sleep(callsLive)
				})
			})
		}
	}
}

// A waiter that is refused remembers the sends before that which were not answered: one of them may yet be
// let in, when the waiter has given up.
func TestRefusedWaiterRemembersItsSends(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		other, _ := w.client()
		held := must(t)(other.NewMutex("x").Lock(background))
		c, d := w.client()
		d.LoseMessages(true)
		once(d, "acquire", memdriver.Fault{DelayRequest: 2100 * time.Millisecond}) // the second send is refused after 2 s
		ctx, cancel := context.WithCancel(background)
		defer time.AfterFunc(2070*time.Millisecond, cancel).Stop()
		time.AfterFunc(2050*time.Millisecond, func() { unlock(t, held) })
		if _, err := c.NewMutex("x").Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock: %v", err)
		}
		time.Sleep(time.Second)
		w.wantReply("0", "EXISTS", "x")
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
			fake(t, func(t *testing.T, w *world) {
				c, d := w.client()
				s := c.NewPermitSemaphore("x")
				ok(t, s.SetPermits(background, 1))
				once(d, name, memdriver.Fault{DelayRequest: 2100 * time.Millisecond}) // the second send is answered after 2 s
				if was, err := call(s); !was || err != nil {
					t.Errorf("%s: %v, %v", name, was, err)
				}
				time.Sleep(time.Millisecond)
				if set, err := s.TrySetPermits(background, 2); !set || err != nil {
					t.Fatal(set, err)
				}
				time.Sleep(time.Second)
				w.wantReply("2", "GET", "x")
				w.do("DEL", "x")
				time.Sleep(callsLive)
			})
		})
	}
}

// A short timeout does not have Redis forget a call before a send of it can be late.
func TestRememberedForLongEnough(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithTimeout(10 * time.Millisecond))
		s := c.NewUnleasedSemaphore("x")
		w.do("SET", "x", "1")
		once(d, "add", memdriver.Fault{DelayRequest: 200 * time.Millisecond})
		var backend *holdfast.BackendError
		if err := s.Release(1); !errors.As(err, &backend) || !backend.MayHaveRun {
			t.Errorf("Release: %v", err) // it goes on in the background
		}
		time.Sleep(time.Second)
		w.wantReply("2", "GET", "x")
		w.do("DEL", "x")
		time.Sleep(time.Minute)
	})
}

// Before its first answer a client does not know what time it is in Redis. A send whose limit is minutes off may come as
// late, and Redis remembers its call for longer.
func TestRememberedWithClocksApart(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		w.server.SetClock(-2 * time.Minute)
		c, d := w.client()
		w.do("SET", "x", "1")
		once(d, "add", memdriver.Fault{DelayRequest: 100 * time.Second})
		ok(t, c.NewUnleasedSemaphore("x").Release(1))
		w.wantReply("2", "GET", "x")
		time.Sleep(100 * time.Second)
		w.wantReply("2", "GET", "x")
		w.do("DEL", "x")
		time.Sleep(5 * time.Minute)
	})
}

// A nested Lock gives back what another goroutine's Unlock has left to it. An attempt of an earlier Lock of
// the same owner, which is still on its way, must not raise the count again behind that.
func TestAttemptBehindALaterRelease(t *testing.T) {
	fakeNesting(t, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithTimeout(300 * time.Millisecond))
		outer := must(t)(w.lock(c).Lock(background))
		ctx := holdfast.WithOwner(background, outer.Owner())
		inner := must(t)(w.lock(c).Lock(ctx))
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
				if h, err := w.lock(c).Lock(ctx); err == nil {
					held <- h
				} else {
					t.Error(err)
				}
			}()
			synctest.Wait()
			return held
		}
		unlocking := func(h *holdfast.Hold) <-chan error {
			ended := make(chan error, 1)
			go func() { ended <- h.Unlock() }()
			synctest.Wait()
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
			unlock(t, h)
		}
		unlock(t, outer)
	})
}
