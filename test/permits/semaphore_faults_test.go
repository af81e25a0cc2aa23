package permits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestSemaphoreTakesAndGives(t *testing.T) {
	kit.CounterWorld(t, 5, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewUnleasedSemaphore("x")
		seen := kit.Count(d)
		kit.OK(t, s.Acquire(background, 3), s.TryAcquire(background, 2), s.Release(4))
		if n := seen.All(); n != 3 {
			t.Errorf("%d round trips, want 3", n)
		}
		w.WantReply("4", "GET", "x")
		kit.WantError(t, s.TryAcquire(background, 5), holdfast.ErrLocked)
		start := time.Now()
		kit.WantError(t, s.Acquire(background, 5, holdfast.Wait(5*time.Second)), holdfast.ErrLocked)
		within(t, start, 5*time.Second, 5*time.Second)
		time.Sleep(time.Millisecond)
		w.WantReply("0", "EXISTS", "holdfast_next:{x}")
		wantDid(t, false)(s.TrySetPermits(background, 9))
		if n, err := s.Drain(background); n != 4 || err != nil {
			t.Error(n, err)
		}
		kit.OK(t, s.AddPermits(background, -2))
		wantFree(t, s, -2)
		kit.OK(t, s.AddPermits(background, 7))
	})
}

// TestS14_SemaphoreHasOneEffect goes through all operations with each fault at
// each, and checks the number after each, at once and a while later.
func TestS14_SemaphoreHasOneEffect(t *testing.T) {
	steps := []struct {
		script, want string
		do           func(*holdfast.UnleasedSemaphore) error
	}{
		{"acquire", "3", func(s *holdfast.UnleasedSemaphore) error { return s.Acquire(background, 2) }},
		{"acquire", "1", func(s *holdfast.UnleasedSemaphore) error { return s.TryAcquire(background, 2) }},
		{"add", "4", func(s *holdfast.UnleasedSemaphore) error { return s.Release(3) }},
		{"drain", "0", func(s *holdfast.UnleasedSemaphore) error {
			if n, err := s.Drain(background); n != 4 || err != nil {
				return fmt.Errorf("drained %d, %w", n, err)
			}
			return nil
		}},
		{"add", "6", func(s *holdfast.UnleasedSemaphore) error { return s.AddPermits(background, 6) }},
		{"add", "5", func(s *holdfast.UnleasedSemaphore) error { return s.AddPermits(background, -1) }},
	}
	for i := range steps {
		t.Run(fmt.Sprint(steps[i].script, i), func(t *testing.T) {
			underFaults(t, "semaphore", 5, func(t *testing.T, w *kit.World, c *holdfast.Client, once func(string)) {
				s := c.NewUnleasedSemaphore("x")
				for j, step := range steps {
					if j == i {
						once(step.script)
					}
					kit.OK(t, step.do(s))
					w.WantReply(step.want, "GET", "x")
				}
				time.Sleep(time.Minute)
			})
		})
	}
	underFaults(t, "semaphore", 5, func(t *testing.T, w *kit.World, c *holdfast.Client, once func(string)) {
		s := c.NewUnleasedSemaphore("y")
		once("set")
		wantDid(t, true)(s.TrySetPermits(background, 1))
		w.WantReply("1", "GET", "y")
		time.Sleep(30 * time.Second)
		w.WantReply("1", "GET", "y")
		wantDid(t, true)(s.Delete(background))
	})
}

// Giving back what a call may have taken has its effect once, too; and so has
// leaving, which keeps nobody standing back.
func TestUndoingHasOneEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprint(name, many), func(t *testing.T) {
				kit.CounterWorld(t, 5, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					n, wait := 2, time.Millisecond
					if many {
						n, wait = 6, 0
					}
					var mu sync.Mutex
					first := map[string]memdriver.Fault{"undo": fault}
					d.SetFaults(func(call driver.Call) memdriver.Fault {
						mu.Lock()
						defer mu.Unlock()
						f, hit := first[call.Script.Name()]
						delete(first, call.Script.Name())
						if !hit && call.Script.Name() == "acquire" {
							f = memdriver.Fault{DelayRequest: wait, DelayReply: time.Millisecond}
						}
						return f
					})
					for after := range 4 { // during the first try, or the one that reserves
						ctx, cancel := context.WithTimeout(background, time.Duration(after)*time.Millisecond+500*time.Microsecond)
						if err := c.NewUnleasedSemaphore("x").Acquire(ctx, n); err == nil {
							kit.OK(t, c.NewUnleasedSemaphore("x").Release(n))
						}
						cancel()
					}
					time.Sleep(4 * time.Second)
					w.WantReply("5", "GET", "x")
					w.WantReply("0", "EXISTS", "holdfast_next:{x}")
				})
			})
		}
	}
}

// What Redis took without saying so, before it went away, is given back when it
// is there again; what was to be released is released.
func TestSemaphoreMakesUpForAnOutage(t *testing.T) {
	kit.CounterWorld(t, 5, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewUnleasedSemaphore("x")
		d.SetFaults(func(call driver.Call) memdriver.Fault { // what undoes it does not arrive
			acquires := call.Script.Name() == "acquire"
			return memdriver.Fault{LoseReply: acquires, LoseRequest: !acquires}
		})
		var failed *holdfast.BackendError
		if err := s.TryAcquire(background, 2); !errors.As(err, &failed) || !failed.MayHaveRun {
			t.Errorf("TryAcquire: %v", err)
		}
		w.WantReply("3", "GET", "x")
		time.Sleep(20 * time.Second)
		d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		w.WantReply("5", "GET", "x")

		kit.OK(t, s.Acquire(background, 2))
		kit.Silent(d, memdriver.Fault{Refuse: errors.New("connection refused")})
		start := time.Now()
		if err := s.Release(2); !errors.As(err, &failed) || !failed.MayHaveRun {
			t.Errorf("Release: %v", err)
		}
		within(t, start, 0, holdfast.DefaultTimeout)
		time.Sleep(20 * time.Second)
		w.WantReply("3", "GET", "x")
		d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		w.WantReply("5", "GET", "x")
	})
}

// A9: nothing but its end removes a semaphore's time to live.
func TestA9_TimeToLiveStays(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewUnleasedSemaphore("x")
		wantDid(t, true)(s.TrySetPermits(background, 5))
		wantDid(t, true)(s.Expire(background, time.Minute))
		kit.OK(t, s.Acquire(background, 2), s.Release(1), s.AddPermits(background, 3), s.AddPermits(background, -1))
		if n, err := s.Drain(background); n != 6 || err != nil {
			t.Error(n, err)
		}
		wantDid(t, true)(s.ReleaseIfExists(1))
		if ttl := w.PTTL("x"); ttl != time.Minute {
			t.Errorf("lives for %v", ttl)
		}
		time.Sleep(time.Minute)
		wantDid(t, false)(s.ReleaseIfExists(1))
		w.WantReply("0", "EXISTS", "x")
		time.Sleep(2 * time.Minute)
	})
}

// What holdfast keeps to know calls again is forgotten again.
func TestCallsAreForgotten(t *testing.T) {
	kit.CounterWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewUnleasedSemaphore("x")
		for range 100 {
			kit.OK(t, s.Acquire(background, 1), s.Release(1))
			time.Sleep(time.Second)
		}
		if n, err := strconv.Atoi(w.Do("ZCARD", "holdfast_calls:{x}")); n > 160 || err != nil { // 2 a second, for 73 s
			t.Errorf("%d calls are kept, %v", n, err)
		}
	})
}
