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
			kit.Unlock(t, h)
		})
		synctest.Wait() // it stands in line
	}
	return func() []int { wg.Wait(); return got }
}

// Of one process one tries at a time, and one subscription serves all; also behind a head that got the lock at its first try.
func TestOneTryOneSubscriptionFirstComeFirstServed(t *testing.T) {
	for _, free := range []bool{false, true} {
		fakeMutex(t, func(s *stage) {
			h := s.heldByOther()
			if free {
				s.release(h)
			}
			c, d := s.Client()
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
			const n, stay = 50, time.Millisecond
			start, order := time.Now(), waiters(s.T, s.Lock(c), n, stay)
			if !free {
				time.Sleep(100 * time.Millisecond)
				granted := s.Do("PUBSUB", "CHANNELS") // and no other one
				s.WantReply(granted+" 1", "PUBSUB", "NUMSUB", granted)
				if !strings.HasPrefix(granted, "holdfast_granted:") {
					s.Errorf("it listens on %s", granted)
				}
				time.Sleep(time.Second)
				start = s.release(h)
			}
			if got := order(); !slices.IsSorted(got) || len(got) != n {
				s.Errorf("served in the order %v", got)
			}
			kit.Took(s.T, time.Since(start), 0, n*(stay+20*time.Millisecond), "short holds took %v")
			if most.Load() != 1 || tries.Load() > 2*n+4 {
				s.Errorf("%d tries for %d holds, %d under way at once", tries.Load(), n, most.Load())
			}
		})
	}
}

// L1: nobody polls while messages flow. A message that nobody heard costs at most the longest sleep, whatever the
// lease is; and nothing once the subscription stands again.
func TestL1_LostMessageCostsLittle(t *testing.T) {
	for name, row := range map[string]struct{ deafFor, most time.Duration }{
		"heard": {0, 0},
		"lost":  {time.Hour, 9 * time.Second}, // three waiters, three sleeps
		"back":  {500 * time.Millisecond, 500 * time.Millisecond},
	} {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			other, _ := w.Client()
			h := kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Hour)))
			c, d := w.Client()
			seen := kit.Count(d)
			order := waiters(t, w.Lock(c), 3, 0)
			time.Sleep(time.Minute)
			tries, most := 3+60/3, row.most
			switch {
			case w.Kind.AlwaysListed:
				tries = 3 * (3 + 2*60/3) // each of them asks, and twice as often
			case w.Kind.Listed():
				tries = 3 + 60               // one of them stands in line, and asks every second
				most += 3 * time.Millisecond // it may listen a moment longer, and be one of those to whom it is left
			case w.Kind.Polling:
				tries, most = 60_000, row.most+128*time.Millisecond
			}
			if n := seen.Of("acquire"); n > tries {
				t.Errorf("%s: %d tries in a minute of waiting", name, n)
			}
			if row.deafFor > 0 {
				d.LoseMessages(true)
				time.AfterFunc(row.deafFor, func() { d.LoseMessages(false) })
			}
			start := time.Now()
			kit.Unlock(t, h)
			order()
			kit.Took(t, time.Since(start), 0, most, name+": the waiters needed %v of no network time")
		})
	}
}

// L3: a waiter whose time is up takes no wake-up with it.
func TestL3_LeavingWaiterTakesNoWakeUpWithIt(t *testing.T) {
	for offset := -2 * time.Millisecond; offset <= 12*time.Millisecond; offset += time.Millisecond {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			other, _ := w.Client()
			h := kit.Must(t)(w.Rival(other).Lock(background))
			c, d := w.Client()
			kit.All(d, memdriver.Fault{DelayRequest: 5 * time.Millisecond, DelayReply: 5 * time.Millisecond})
			const wait = time.Second
			leaver := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background, holdfast.Wait(wait)) })
			start, order := time.Now(), waiters(t, w.Lock(c), 1, 0)
			time.AfterFunc(wait-offset, func() { kit.Unlock(t, h) })
			if left := <-leaver; left.Err == nil {
				kit.Unlock(t, left.Hold)
			} else {
				kit.WantError(t, left.Err, holdfast.ErrLocked)
			}
			order()
			bound := wait + 50*time.Millisecond
			if w.Kind.Polling {
				bound += 128 * time.Millisecond // the longest pause
			}
			if took := time.Since(start); took > bound {
				t.Errorf("released %v before the first waiter left: the second got it after %v", offset, took)
			}
		})
	}
}

// L12, L13: a subscription that does not come about fails nobody, and the one
// who asked for it first may leave without taking it along.
func TestL12_L13_SlowSubscriptionFailsNobody(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		c, d := w.Client()
		d.LoseMessages(true) // no confirmation, no message
		leaver := kit.Begin(func() (*holdfast.Hold, error) { return w.Lock(c).Lock(background, holdfast.Wait(5*time.Millisecond)) })
		order := waiters(t, w.Lock(c), 3, 0)
		kit.WantError(t, (<-leaver).Err, holdfast.ErrLocked)
		time.Sleep(time.Second)
		kit.Unlock(t, h)
		order()
		synctest.Wait()
		if n := w.Listeners(); n != 0 {
			t.Errorf("%d listen when all is over", n)
		}
	})
}

// L13, L21, A13: whichever way waiters leave, they end at once, with the context's own error. No subscription stays, and nobody goes
// on waiting for them.
func TestL13_L21_LeavingWaitersLeaveNothing(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Hour)))
		c, d := w.Client()
		why := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(background)
		time.AfterFunc(7*time.Second, func() { cancel(why) })
		start := time.Now()
		kit.Fails(t, context.Canceled, why)(w.Lock(c).Lock(ctx))
		kit.Took(t, time.Since(start), 7*time.Second, 7*time.Second, "ended after %v")

		kit.All(d, memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(background, time.Duration(i)*333*time.Microsecond)
				defer cancel()
				kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
				_, err := w.Lock(c).Lock(background, holdfast.Wait(time.Duration(i)*333*time.Microsecond))
				if failed := new(holdfast.BackendError); !errors.Is(err, holdfast.ErrLocked) && !errors.As(err, &failed) { // too short for any answer
					t.Errorf("waiter %d: %v", i, err)
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
		if n := w.Listeners(); n > 1 || n == 0 && !w.Kind.Polling {
			t.Errorf("%d listen", n)
		}
		kit.Unlock(t, h)
		synctest.Wait()
		if n := w.Listeners(); n != 0 {
			t.Errorf("%d listen when all is over", n)
		}
	})
}

// The bounds hold when Redis is away, and the errors name the cause.
func TestBoundsHoldWithoutRedis(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"silent":  {LoseRequest: true},
		"refused": {Refuse: errors.New("connection refused")},
	} {
		for wait, bound := range map[time.Duration]time.Duration{
			0: holdfast.DefaultTimeout, 100 * time.Millisecond: 100 * time.Millisecond, time.Second: time.Second,
			5 * time.Second: 5 * time.Second, time.Minute: holdfast.DefaultTimeout, // never in touch: a wrong address, for all we know
		} {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				kit.All(d, fault)
				start := time.Now()
				_, err := w.Lock(c).Lock(background, holdfast.Wait(wait))
				kit.Took(t, time.Since(start), 0, bound, fmt.Sprintf("%s: Wait(%v)", name, wait)+" took %v")
				var failed *holdfast.BackendError
				if !errors.As(err, &failed) || errors.Is(err, holdfast.ErrLocked) || failed.MayHaveRun != fault.LoseRequest || !errors.Is(err, fault.Refuse) && fault.Refuse != nil {
					t.Errorf("%s: Wait(%v): %v", name, wait, err)
				}
				closing := time.Now()
				d.SetFaults(nil)
				kit.OK(t, c.Close())
				if took := time.Since(closing); took > 0 && fault.Refuse != nil {
					t.Errorf("Close took %v, with nothing to wait for", took)
				}
			})
		}
	}
}

// refusals are how a server, or the way to it, says that it does not know who asks; or, to a user without EVAL, that it does not have the script.
var refusals = map[string]memdriver.Fault{
	"password":    {Refuse: driver.ServerError("WRONGPASS no", errors.New("WRONGPASS no"))},
	"none":        {Refuse: driver.ServerError("NOAUTH none", errors.New("NOAUTH none"))},
	"script":      {Refuse: driver.ServerError("NOPERM User u has no permissions to run the 'eval' command", errors.New("NOPERM no EVAL"))},
	"certificate": {Refuse: driver.ConnectionError(&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, true)},
}

// One who stands in line bears an outage of ten timeouts, and gets the lock when
// Redis is back; a longer one ends the wait with an error. Credentials that were accepted once and are not any more are being rotated, and scripts that were
// loaded once are loaded again: that is an outage.
func TestWaitersBearAnOutage(t *testing.T) {
	bear := func(t *testing.T, fault memdriver.Fault, outage time.Duration) {
		t.Helper()
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			other, _ := w.Client()
			kit.Must(t)(w.Rival(other).Lock(background, holdfast.FixedLease(time.Second)))
			c, d := w.Client()
			time.AfterFunc(100*time.Millisecond, func() { kit.All(d, fault) })
			time.AfterFunc(outage, func() { d.SetFaults(nil) })
			h, err := w.Lock(c).Lock(background)
			if outage < time.Minute {
				kit.Unlock(t, kit.Must(t)(h, err))
				return
			}
			if fault.Refuse != nil {
				kit.WantBackend(t, "outage", err, fault.Refuse.Error())
			} else if failed := new(holdfast.BackendError); !errors.As(err, &failed) {
				t.Errorf("outage of %v: %v", outage, err)
			}
		})
	}
	for _, outage := range []time.Duration{20 * time.Second, 50 * time.Second, 5 * time.Minute} {
		bear(t, kit.LostRequest, outage)
	}
	for _, fault := range refusals {
		bear(t, fault, 50*time.Second)
		bear(t, fault, 5*time.Minute)
	}
}

// Credentials that were never accepted are an error at once, and so are scripts that were never loaded. Who asks once bears that they are rotated, or loaded again.
func TestRotatedCredentials(t *testing.T) {
	for what, fault := range refusals {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			kit.All(d, fault)
			began := time.Now()
			_, err := w.Lock(c).Lock(background)
			kit.WantBackend(t, what, err, fault.Refuse.Error())
			kit.Took(t, time.Since(began), 0, 0, "never accepted: %v")
			d.SetFaults(nil)
			kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(background)))
			kit.All(d, fault)
			time.AfterFunc(time.Second, func() { d.SetFaults(nil) })
			kit.Unlock(t, kit.Must(t)(w.Lock(c).TryLock(background)))
		})
	}
}

// One refusal is enough to bear an outage: one that came before the queue, or since a slot is being moved, after which there is only
// silence. What a server has said counts for more than that.
func TestOneRefusalBearsAnOutage(t *testing.T) {
	for name, first := range map[string]memdriver.Fault{
		"locked": {},
		"moved":  {Refuse: driver.ServerError("TRYAGAIN Multiple keys request during rehashing of slot", errors.New("TRYAGAIN"))},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				latch := c.NewLatch("x")
				await := func() { kit.Unlock(t, kit.Must(t)(c.NewFairMutex("x").Lock(background))) }
				if first.Refuse == nil {
					_, err := latch.TrySetCount(background, 1)
					kit.OK(t, err)
					await = func() { kit.OK(t, latch.Await(background)) }
				}
				var asked atomic.Int32
				d.SetFaults(func(driver.Call) memdriver.Fault {
					if asked.Add(1) == 1 {
						return first
					}
					return kit.LostRequest
				})
				time.AfterFunc(30*time.Second, func() {
					d.SetFaults(nil)
					if first.Refuse == nil {
						kit.NoError(t, latch.CountDown())
					}
				})
				await()
				if n := asked.Load(); n < 2 {
					t.Errorf("it asked %d times", n)
				}
				time.Sleep(10 * time.Minute) // until the ids of calls are forgotten
			})
		})
	}
}
