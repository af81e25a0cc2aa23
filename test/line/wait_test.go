package line

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Waiting: no polling while messages flow, no wake-up lost for long, one try and
// one subscription a process, first come first served.

// waiters starts n goroutines that lock one after another in order, and returns
// the order in which they got it.
func waiters(t *testing.T, l kit.AnyLock, n int, hold time.Duration) (order func() []int) {
	t.Helper()
	var mu sync.Mutex
	var got []int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			h, err := l.Lock(background)
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			mu.Lock()
			got = append(got, i)
			mu.Unlock()
			time.Sleep(hold)
			if err := h.Unlock(); err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
		synctest.Wait() // it stands in line
	}
	return func() []int { wg.Wait(); return got }
}

func TestOneTryOneSubscriptionFirstComeFirstServed(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(other.NewMutex("x").Lock(background))
		c, d := w.Client()
		var underWay, most, tries atomic.Int32
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "acquire" {
				tries.Add(1)
				if n := underWay.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.AfterFunc(8*time.Millisecond, func() { underWay.Add(-1) })
			}
			return memdriver.Fault{DelayRequest: 5 * time.Millisecond, DelayReply: 4 * time.Millisecond}
		})
		const n = 50
		order := waiters(t, w.Lock(c), n, time.Millisecond)
		time.Sleep(100 * time.Millisecond)
		granted := w.Do("PUBSUB", "CHANNELS") // and no other one
		w.WantReply(granted+" 1", "PUBSUB", "NUMSUB", granted)
		if !strings.HasPrefix(granted, "holdfast_granted:") {
			t.Errorf("it listens on %s", granted)
		}
		time.Sleep(time.Second)
		kit.Unlock(t, h)
		got := order()
		if !slices.IsSorted(got) || len(got) != n {
			t.Errorf("served in the order %v", got)
		}
		if most.Load() != 1 {
			t.Errorf("%d tries under way at once", most.Load())
		}
		if tries.Load() > 2*n+4 {
			t.Errorf("%d tries for %d holds", tries.Load(), n)
		}
	})
}

// One who stands behind a head that got the lock at its first try hears of the
// release like any other.
func TestWaiterBehindALuckyHead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.Silent(d, memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond})
		start := time.Now()
		if got := waiters(t, w.Lock(c), 5, 10*time.Millisecond)(); !slices.IsSorted(got) {
			t.Errorf("served in the order %v", got)
		}
		kit.Took(t, time.Since(start), 0, 200*time.Millisecond, "five short holds took %v")
	})
}

// P3: releases of others are not added up into tries.
func TestP3_WakeUpsAreCoalesced(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(other.NewMutex("x").Lock(background))
		c, d := w.Client()
		order := waiters(t, w.Lock(c), 1, 0)
		time.Sleep(10 * time.Millisecond)
		seen := kit.Count(d)
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			seen.Note(call)
			return memdriver.Fault{DelayRequest: 10 * time.Millisecond}
		})
		for range 1000 {
			w.Do("PUBLISH", "redisson_lock__channel:{x}", "0")
		}
		time.Sleep(100 * time.Millisecond)
		if n := seen.Of("acquire"); n > 2 {
			t.Errorf("%d tries after 1000 messages in a row", n)
		}
		kit.Unlock(t, h)
		order()
	})
}

func TestNoPollingWhileMessagesFlow(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		c, d := w.Client()
		seen := kit.Count(d)
		order := waiters(t, w.Lock(c), 20, 0)
		time.Sleep(time.Minute)
		most := 3 + 60/3
		switch {
		case w.Kind.Queues:
			most = 20 * (3 + 2*60/3) // each of them asks, and twice as often
		case w.Kind.Line:
			most = 3 + 60 // one of them stands in line, and asks every second
		}
		if n := seen.Of("acquire"); n > most && !w.Kind.Polls {
			t.Errorf("%d tries in a minute of waiting", n)
		}
		start := time.Now()
		kit.Unlock(t, h)
		order()
		longest := time.Duration(0)
		if w.Kind.Line { // who has held it for long listens a moment longer, and counts as one of those to whom it is left
			longest = 3 * time.Millisecond
		}
		if took := time.Since(start); took > longest && !w.Kind.Polls {
			t.Errorf("the waiters needed %v of no network time", took)
		}
	})
}

// L1: a message that nobody heard costs at most the longest sleep, whatever the
// lease is; and nothing once the subscription stands again.
func TestL1_LostMessageCostsLittle(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for _, back := range []time.Duration{0, 500 * time.Millisecond} {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				other, _ := w.Client()
				h := kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Hour)))
				c, d := w.Client()
				order := waiters(t, w.Lock(c), 3, 0)
				time.Sleep(100 * time.Millisecond)
				d.LoseMessages(true)
				start := time.Now()
				kit.Unlock(t, h)
				if back > 0 {
					time.AfterFunc(back, func() { d.LoseMessages(false) })
				}
				order()
				bound := 9 * time.Second // three waiters, three sleeps
				if back > 0 {
					bound = back
				}
				if took := time.Since(start); took > bound {
					t.Errorf("messages back after %v: waited %v", back, took)
				}
			})
		}
	})
}

// A key without expiry, or one that expires without a word, is waited for no
// longer than it lasts.
func TestWaitsNoLongerThanTheKeyLasts(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		w.Do("HSET", "x", "ffffffff-0000-4000-8000-000000000000:1", "1")
		time.AfterFunc(10*time.Second, func() { w.Do("DEL", "x") })
		start := time.Now()
		kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Lock(background)))
		kit.Took(t, time.Since(start), 0, 13*time.Second, "waited %v for a key that was deleted after 10s")
		w.Do("HSET", "x", "ffffffff-0000-4000-8000-000000000000:1", "1")
		w.Do("PEXPIRE", "x", "10500")
		start = time.Now()
		kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Lock(background)))
		kit.Took(t, time.Since(start), 0, 10505*time.Millisecond, "waited %v for a key that lived 10.5s")
	})
}

// L3: a waiter whose time is up takes no wake-up with it.
func TestL3_LeavingWaiterTakesNoWakeUpWithIt(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for offset := -2 * time.Millisecond; offset <= 12*time.Millisecond; offset += time.Millisecond {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				other, _ := w.Client()
				h := kit.Must(t)(w.Rival(other).Lock(background))
				c, d := w.Client()
				kit.Silent(d, memdriver.Fault{DelayRequest: 5 * time.Millisecond, DelayReply: 5 * time.Millisecond})
				const wait = time.Second
				var leaver sync.WaitGroup
				leaver.Go(func() {
					h, err := w.Lock(c).Lock(background, holdfast.Wait(wait))
					if err == nil {
						kit.Unlock(t, h)
					} else {
						kit.WantError(t, err, holdfast.ErrLocked)
					}
				})
				synctest.Wait()
				order := waiters(t, w.Lock(c), 1, 0)
				start := time.Now()
				time.AfterFunc(wait-offset, func() { kit.Unlock(t, h) })
				order()
				leaver.Wait()
				bound := wait + 50*time.Millisecond
				if k.Polls {
					bound += 128 * time.Millisecond // the longest pause
				}
				if took := time.Since(start); took > bound {
					t.Errorf("released %v before the first waiter left: the second got it after %v", offset, took)
				}
			})
		}
	})
}

// L12, L13: a subscription that does not come about fails nobody, and the one
// who asked for it first may leave without taking it along.
func TestL12_L13_SlowSubscriptionFailsNobody(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		c, d := w.Client()
		d.LoseMessages(true) // no confirmation, no message
		var leaver sync.WaitGroup
		leaver.Go(func() {
			kit.Fails(t, holdfast.ErrLocked)(w.Lock(c).Lock(background, holdfast.Wait(5*time.Millisecond)))
		})
		synctest.Wait()
		order := waiters(t, w.Lock(c), 3, 0)
		leaver.Wait()
		time.Sleep(time.Second)
		kit.Unlock(t, h)
		order()
		synctest.Wait()
		if n := w.Listeners(); n != 0 {
			t.Errorf("%d listen when all is over", n)
		}
	})
}

// L13, L21: whichever way waiters leave, no subscription stays and nobody goes
// on waiting for them.
func TestL13_L21_LeavingWaitersLeaveNothing(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Hour)))
		c, d := w.Client()
		kit.Silent(d, memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(background, time.Duration(i)*333*time.Microsecond)
				defer cancel()
				kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
				_, err := w.Lock(c).Lock(background, holdfast.Wait(time.Duration(i)*333*time.Microsecond))
				if !errors.Is(err, holdfast.ErrLocked) {
					var failed *holdfast.BackendError // too short for any answer
					if !errors.As(err, &failed) {
						t.Errorf("waiter %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		seen := kit.Count(d)
		time.Sleep(time.Minute)
		if n := seen.All(); n != 0 {
			t.Errorf("%d calls after the last waiter left", n)
		}
		// The holder listens, for a forced unlock; nobody else does.
		if n := w.Listeners(); n > 1 || n == 0 && !w.Kind.Polls {
			t.Errorf("%d listen", n)
		}
		if err := h.Context().Err(); err != nil {
			t.Errorf("the holder: %v", context.Cause(h.Context()))
		}
		kit.Unlock(t, h)
		synctest.Wait()
		if n := w.Listeners(); n != 0 {
			t.Errorf("%d listen when all is over", n)
		}
	})
}

// A13: a cancelled waiter ends at once, with the context's own error.
func TestA13_CancelledWaiterEndsAtOnce(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		c, _ := w.Client()
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(background)
		time.AfterFunc(7*time.Second, func() { cancel(why) })
		start := time.Now()
		kit.Fails(t, context.Canceled, why)(w.Lock(c).Lock(ctx))
		kit.Took(t, time.Since(start), 7*time.Second, 7*time.Second, "ended after %v")
		kit.Unlock(t, h)
	})
}

// The bounds hold when Redis is away, and the errors name the cause.
func TestBoundsHoldWithoutRedis(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"silent":  {LoseRequest: true},
		"refused": {Refuse: errors.New("connection refused")},
	} {
		kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
			for _, wait := range []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second, time.Minute} {
				kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					kit.Silent(d, fault)
					start := time.Now()
					_, err := w.Lock(c).Lock(background, holdfast.Wait(wait))
					var failed *holdfast.BackendError
					if !errors.As(err, &failed) || errors.Is(err, holdfast.ErrLocked) {
						t.Errorf("%s: Wait(%v): %v", name, wait, err)
					} else if failed.MayHaveRun != (fault.Refuse == nil) || fault.Refuse != nil && !errors.Is(err, fault.Refuse) {
						t.Errorf("%s: Wait(%v): may have run: %v: %v", name, wait, failed.MayHaveRun, err)
					}
					bound := wait
					if wait == 0 || wait > holdfast.DefaultTimeout {
						bound = holdfast.DefaultTimeout // never in touch: a wrong address, for all we know
					}
					if took := time.Since(start); took > bound {
						t.Errorf("%s: Wait(%v) took %v", name, wait, took)
					}
					closing := time.Now()
					d.SetFaults(nil)
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					if took := time.Since(closing); took > 0 && fault.Refuse != nil {
						t.Errorf("Close took %v, with nothing to wait for", took)
					}
				})
			}
		})
	}
}

// One who stands in line bears an outage of ten timeouts, and gets the lock when
// Redis is back; a longer one ends the wait with an error.
func TestWaitersBearAnOutage(t *testing.T) {
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for _, outage := range []time.Duration{20 * time.Second, 50 * time.Second, 5 * time.Minute} {
			kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
				other, _ := w.Client()
				kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Second)))
				c, d := w.Client()
				time.AfterFunc(100*time.Millisecond, func() { kit.Silent(d, memdriver.Fault{LoseRequest: true}) })
				time.AfterFunc(outage, func() { d.SetFaults(nil) })
				h, err := w.Lock(c).Lock(background)
				if outage > 70*time.Second {
					var failed *holdfast.BackendError
					if !errors.As(err, &failed) {
						t.Errorf("outage of %v: %v", outage, err)
					}
					return
				}
				if err != nil {
					t.Fatalf("outage of %v: %v", outage, err)
				}
				kit.Unlock(t, h)
			})
		}
	})
}

// The first refusal is enough for that, also where it came before the queue.
func TestOneRefusalBearsAnOutage(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		latch := c.NewLatch("x")
		if _, err := latch.TrySetCount(background, 1); err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: asked.Add(1) > 1} })
		time.AfterFunc(20*time.Second, func() {
			d.SetFaults(nil)
			kit.OK(t, latch.CountDown())
		})
		kit.OK(t, latch.Await(background))
		if asked.Load() < 2 {
			t.Error("it asked once")
		}
		time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
	})
}

// Credentials that were accepted once and are not any more are being rotated: who waits, and who asks once, bears that as an
// outage. Those that were never accepted are an error at once.
func TestRotatedCredentials(t *testing.T) {
	refusals := map[string]error{
		"password":    driver.ServerError("WRONGPASS no", errors.New("WRONGPASS no")),
		"none":        driver.ServerError("NOAUTH none", errors.New("NOAUTH none")),
		"certificate": driver.ConnectionError(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, true),
	}
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		for what, refusal := range refusals {
			refuse := func(d *memdriver.Driver) {
				d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{Refuse: refusal} })
			}
			c, d := w.Client()
			refuse(d)
			began := time.Now()
			_, err := w.Lock(c).Lock(background)
			kit.WantBackend(t, what, err, refusal.Error())
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: never accepted: %v", what, took)
			}
			d.SetFaults(nil)
			kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(background)))
			refuse(d)
			time.AfterFunc(time.Second, func() { d.SetFaults(nil) })
			kit.Unlock(t, kit.Must(t)(w.Lock(c).TryLock(background)))

			other, _ := w.Client()
			for _, gap := range []time.Duration{50 * time.Second, 5 * time.Minute} {
				kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Second)))
				time.AfterFunc(100*time.Millisecond, func() { refuse(d) })
				time.AfterFunc(gap, func() { d.SetFaults(nil) })
				h, err := w.Lock(c).Lock(background)
				if gap < time.Minute {
					if err != nil {
						t.Fatalf("%s: a waiter: %v", what, err)
					}
					kit.Unlock(t, h)
					continue
				}
				kit.WantBackend(t, what, err, refusal.Error())
				time.Sleep(gap)
			}
			_, _ = c.Close(), other.Close()
		}
	})
}

// Close ends waiters, gives back holds, and leaves nothing.
func TestCloseEndsEverything(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		holds := make([]*holdfast.Hold, 20)
		for i := range holds {
			holds[i] = kit.Must(t)(w.Use(c, fmt.Sprint("x", i)).Lock(background))
		}
		if w.Kind.Nests {
			holds = append(holds, kit.Must(t)(w.Kind.Lock(c, "x0").Lock(holds[0].Context())))
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				kit.Fails(t, holdfast.ErrClosed)(w.Kind.Against(c, fmt.Sprint("x", i)).Lock(background))
			})
		}
		time.Sleep(5 * time.Second)
		kit.OK(t, c.Close())
		wg.Wait()
		for _, h := range holds {
			kit.WantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
			kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		}
		w.WantNothing()
		kit.Fails(t, holdfast.ErrClosed)(w.Lock(c).Lock(background))
		kit.Fails(t, holdfast.ErrClosed)(w.Lock(c).TryLock(background))
		_, err := w.Lock(c).Inspect(background)
		kit.WantError(t, err, holdfast.ErrClosed)
	})
}

// A hook may close the client: Close does not wait for the call that runs it.
func TestCloseFromAHook(t *testing.T) {
	for name, test := range map[string]struct {
		hooks func(closing func(context.Context, holdfast.Event)) holdfast.Hooks
		cause func(d *memdriver.Driver, h *holdfast.Hold)
	}{
		"acquired": {
			func(f func(context.Context, holdfast.Event)) holdfast.Hooks { return holdfast.Hooks{OnAcquire: f} },
			func(*memdriver.Driver, *holdfast.Hold) {},
		},
		"released": {
			func(f func(context.Context, holdfast.Event)) holdfast.Hooks { return holdfast.Hooks{OnRelease: f} },
			func(_ *memdriver.Driver, h *holdfast.Hold) { _ = h.Unlock() },
		},
		"lost": {
			func(f func(context.Context, holdfast.Event)) holdfast.Hooks { return holdfast.Hooks{OnLost: f} },
			func(*memdriver.Driver, *holdfast.Hold) { time.Sleep(2 * time.Second) }, // the lease
		},
		"lost, found by Unlock": {
			func(f func(context.Context, holdfast.Event)) holdfast.Hooks { return holdfast.Hooks{OnLost: f} },
			func(d *memdriver.Driver, h *holdfast.Hold) {
				_, _ = d.Eval(background, driver.Call{
					Script: driver.NewScript("del", "return redis.call('DEL', KEYS[1])"), Keys: []string{"x"},
				})
				_ = h.Unlock()
			},
		},
		"failed": {
			func(f func(context.Context, holdfast.Event)) holdfast.Hooks { return holdfast.Hooks{OnError: f} },
			func(d *memdriver.Driver, h *holdfast.Hold) {
				d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{Refuse: errors.New("no")} })
				_ = h.Unlock()
				time.Sleep(time.Minute)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var c *holdfast.Client
				took := make(chan time.Duration, 9)
				closing := func(context.Context, holdfast.Event) {
					start := time.Now()
					kit.OK(t, c.Close())
					took <- time.Since(start)
				}
				d := w.Server.Driver()
				c, err := testclient.New(d, holdfast.WithHooks(test.hooks(closing)), holdfast.WithoutIdentity())
				kit.OK(t, err)
				h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(time.Second)))
				test.cause(d, h)
				if d := <-took; d > 0 {
					t.Errorf("Close took %v", d)
				}
			})
		})
	}
}

// Close is bounded by the client's timeout when Redis is away.
func TestCloseIsBounded(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		d := w.Server.Driver()
		c, err := testclient.New(d, holdfast.WithTimeout(100*time.Millisecond))
		kit.OK(t, err)
		kit.Must(t)(w.Lock(c).Lock(background, holdfast.FixedLease(time.Second)))
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		start := time.Now()
		kit.WantError(t, c.Close(), context.DeadlineExceeded)
		kit.Took(t, time.Since(start), 0, 100*time.Millisecond, "Close took %v")
		if err := c.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
		time.Sleep(time.Hour) // the lease, and what the client has said of itself
	})
}

// Close says so if Redis does not take a lock back, for good or for the client's timeout.
func TestCloseSaysWhatIsKept(t *testing.T) {
	for _, refusal := range []string{"NOPERM", "MISCONF"} {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			d := w.Server.Driver()
			c, err := testclient.New(d)
			if err != nil {
				t.Fatal(err)
			}
			kit.Must(t)(w.Lock(c).Lock(background))
			d.SetFaults(func(driver.Call) memdriver.Fault {
				return memdriver.Fault{Refuse: driver.ServerError(refusal, errors.New(refusal))}
			})
			if err := c.Close(); err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			time.Sleep(time.Hour) // the lease
		})
	}
}

// A waiter whose first call is refused because a slot is being moved, and not answered
// after that, waits on: what a cluster has said counts for more than its silence.
func TestWaiterBearsAMoveAndSilence(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		var calls atomic.Int32
		d.SetFaults(func(driver.Call) memdriver.Fault {
			if calls.Add(1) == 1 {
				return memdriver.Fault{Refuse: driver.ServerError("TRYAGAIN Multiple keys request during rehashing of slot", errors.New("TRYAGAIN"))}
			}
			return memdriver.Fault{LoseRequest: true}
		})
		time.AfterFunc(30*time.Second, func() { d.SetFaults(nil) })
		kit.Unlock(t, kit.Must(t)(c.NewFairMutex("x").Lock(background)))
		if n := calls.Load(); n < 3 {
			t.Errorf("%d calls", n)
		}
	})
}

// Who was woken, and gives up while a try of one who has left is still under way, passes the wake-up on: where it stands in line, and
// where there is none.
func TestWakeUpOfOneWhoLeavesDuringATry(t *testing.T) {
	for channel, lock := range map[string]kit.Maker{protocol.LockChannel("x"): kit.MutexWith(), protocol.RWChannel("x"): kit.Writer()} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			holder, _ := w.Client()
			c, d := w.Client()
			x := lock(c, "x")
			h := kit.Must(t)(lock(holder, "x").Lock(background))
			leaving := func() (cancel context.CancelFunc) {
				ctx, cancel := context.WithCancel(background)
				kit.Waiting(t, x, ctx)
				return cancel
			}
			firstLeaves, secondLeaves := leaving(), leaving()
			third := kit.Waiting(t, x, background)
			d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
				if call.Script.Name() == "acquire" {
					f.DelayReply = 50 * time.Millisecond
				}
				return f
			})
			w.Do("PUBLISH", channel, protocol.WriterReleased) // the first asks, and is refused; nobody knows that yet
			time.Sleep(10 * time.Millisecond)
			kit.Unlock(t, h)
			firstLeaves() // the second is to ask, when that try is over
			time.Sleep(10 * time.Millisecond)
			secondLeaves()
			free := time.Now()
			kit.Unlock(t, <-third)
			kit.Took(t, time.Since(free), 0, 200*time.Millisecond, "the third has waited for %v")
		})
	}
}
