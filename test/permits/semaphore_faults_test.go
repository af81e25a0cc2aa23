package permits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("waited %v", took)
		}
		time.Sleep(time.Millisecond)
		w.WantReply("0", "EXISTS", "holdfast_next:{x}")
		if set, err := s.TrySetPermits(background, 9); set || err != nil {
			t.Error(set, err)
		}
		if n, err := s.Drain(background); n != 4 || err != nil {
			t.Error(n, err)
		}
		kit.OK(t, s.AddPermits(background, -2))
		if n, err := kit.Available(s); n != -2 || err != nil {
			t.Error(n, err)
		}
		kit.OK(t, s.AddPermits(background, 7))
	})
}

func TestSemaphoreRefusesBeforeSending(t *testing.T) {
	kit.CounterWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewUnleasedSemaphore("x")
		seen := kit.Count(d)
		for _, n := range []int{0, -1, holdfast.MaxCount + 1} {
			_, err := s.ReleaseIfExists(n)
			for _, err := range []error{s.Acquire(background, n), s.TryAcquire(background, n), s.Release(n), err} {
				kit.WantError(t, err, holdfast.ErrInvalid)
			}
		}
		_, err := s.TrySetPermits(background, -1)
		kit.WantError(t, err, holdfast.ErrInvalid)
		kit.WantError(t, s.AddPermits(background, -holdfast.MaxCount-1), holdfast.ErrInvalid)
		kit.WantError(t, s.Acquire(background, 1, nil), holdfast.ErrInvalid)
		kit.WantError(t, c.NewUnleasedSemaphore("").Acquire(background, 1), holdfast.ErrInvalid)
		kit.WantError(t, c.NewUnleasedSemaphore("").Release(1), holdfast.ErrInvalid)
		if n := seen.All(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
		kit.OK(t, c.Close())
		kit.WantError(t, s.Acquire(background, 1), holdfast.ErrClosed)
		kit.WantError(t, s.Release(1), holdfast.ErrClosed)
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
	for name, fault := range kit.Faults {
		for i := range steps {
			t.Run(fmt.Sprintf("%s/%s %d", name, steps[i].script, i), func(t *testing.T) {
				kit.CounterWorld(t, 5, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					s := c.NewUnleasedSemaphore("x")
					for j, step := range steps {
						if j == i {
							kit.Once(d, step.script, fault)
						}
						kit.OK(t, step.do(s))
						w.WantReply(step.want, "GET", "x")
					}
					time.Sleep(time.Minute)
				})
			})
		}
		t.Run(name+"/set", func(t *testing.T) {
			kit.CounterWorld(t, 5, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				s := c.NewUnleasedSemaphore("y")
				kit.Once(d, "set", fault)
				if set, err := s.TrySetPermits(background, 1); !set || err != nil {
					t.Errorf("set %v, %v", set, err)
				}
				w.WantReply("1", "GET", "y")
				time.Sleep(30 * time.Second)
				w.WantReply("1", "GET", "y")
				if there, err := s.Delete(background); !there || err != nil {
					t.Error(there, err)
				}
			})
		})
	}
}

// A caller that is cancelled takes nothing, at whichever moment, whether or not
// it stood in line; nor does one whom Redis did not answer.
func TestCancelledSemaphoreCallersTakeNothing(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"slow":       {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
		"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
		"very late":  {DelayRequest: 2200 * time.Millisecond},
		"repeated":   {DelayReply: 10 * time.Millisecond, Repeat: true, RepeatAfter: 5 * time.Millisecond},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond} {
			for _, waited := range []bool{false, true} {
				t.Run(fmt.Sprint(name, after, waited), func(t *testing.T) {
					kit.CounterWorld(t, 5, func(t *testing.T, w *kit.World) {
						c, d := w.Client()
						s := c.NewUnleasedSemaphore("x")
						if waited {
							kit.OK(t, s.Acquire(background, 4))
						}
						ctx, cancel := context.WithCancel(background)
						defer cancel()
						done := make(chan error)
						if !waited {
							kit.Once(d, "acquire", fault)
						}
						go func() { done <- s.Acquire(ctx, 2) }()
						if waited {
							time.Sleep(time.Second)
							kit.Once(d, "acquire", fault) // the try after the release
							kit.OK(t, s.Release(4))
						}
						time.Sleep(after)
						cancel()
						if err := <-done; err == nil {
							kit.OK(t, s.Release(2))
						} else {
							kit.WantError(t, err, context.Canceled)
						}
						time.Sleep(4 * time.Second)
						w.WantReply("5", "GET", "x")
						w.WantReply("0", "EXISTS", "holdfast_next:{x}")
					})
				})
			}
		}
	}
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
		if took := time.Since(start); took > holdfast.DefaultTimeout {
			t.Errorf("Release took %v", took)
		}
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
		if set, err := s.TrySetPermits(background, 5); !set || err != nil {
			t.Fatal(set, err)
		}
		if there, err := s.Expire(background, time.Minute); !there || err != nil {
			t.Fatal(there, err)
		}
		kit.OK(t, s.Acquire(background, 2), s.Release(1), s.AddPermits(background, 3), s.AddPermits(background, -1))
		if n, err := s.Drain(background); n != 6 || err != nil {
			t.Error(n, err)
		}
		if existed, err := s.ReleaseIfExists(1); !existed || err != nil {
			t.Error(existed, err)
		}
		if ttl := w.PTTL("x"); ttl != time.Minute {
			t.Errorf("lives for %v", ttl)
		}
		time.Sleep(time.Minute)
		if existed, err := s.ReleaseIfExists(1); existed || err != nil {
			t.Error(existed, err)
		}
		w.WantReply("0", "EXISTS", "x")
		time.Sleep(2 * time.Minute)
	})
}

// L2: whoever waits finds out by itself within three seconds what it was not told.
func TestL2_SemaphoreWithoutMessages(t *testing.T) {
	kit.CounterWorld(t, 2, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		c, d := w.Client()
		kit.OK(t, a.NewUnleasedSemaphore("x").Acquire(background, 2))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { kit.OK(t, c.NewUnleasedSemaphore("x").Acquire(background, 1)) })
		}
		time.Sleep(10 * time.Second)
		d.LoseMessages(true)
		start := time.Now()
		w.Do("INCRBY", "x", "2") // as a failover or an operator may, without a word
		wg.Wait()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("waited %v", took)
		}
		kit.OK(t, a.NewUnleasedSemaphore("x").Release(2))
	})
}

// L4: of several waiters of a process, those wake up for whom there is enough.
func TestL4_SemaphoreWakesAllItCan(t *testing.T) {
	kit.CounterWorld(t, 6, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		c, _ := w.Client()
		kit.OK(t, a.NewUnleasedSemaphore("x").Acquire(background, 6))
		var wg sync.WaitGroup
		var in atomic.Int32
		for _, n := range []int{3, 1, 1} {
			wg.Go(func() { kit.OK(t, c.NewUnleasedSemaphore("x").Acquire(background, n)); in.Add(int32(n)) })
			synctest.Wait()
		}
		kit.OK(t, a.NewUnleasedSemaphore("x").Release(1))
		time.Sleep(time.Second)
		w.WantReply("1", "GET", "x") // it is kept for the first
		kit.OK(t, a.NewUnleasedSemaphore("x").Release(4))
		synctest.Wait()
		if in.Load() != 5 {
			t.Errorf("%d permits taken of 5", in.Load())
		}
		wg.Wait()
		kit.OK(t, c.NewUnleasedSemaphore("x").Release(6))
	})
}

// A waiter for many gets its turn, here too, and leaves no trace.
func TestSemaphoreDoesNotStarveMany(t *testing.T) {
	kit.CounterWorld(t, 3, func(t *testing.T, w *kit.World) {
		ctx, cancel := context.WithCancel(background)
		var wg sync.WaitGroup
		for range 6 {
			c, _ := w.Client()
			s := c.NewUnleasedSemaphore("x")
			wg.Go(func() {
				for s.Acquire(ctx, 1) == nil {
					time.Sleep(7 * time.Millisecond)
					kit.OK(t, s.Release(1))
				}
			})
			time.Sleep(time.Millisecond)
		}
		c, _ := w.Client()
		s := c.NewUnleasedSemaphore("x")
		bounded, stop := context.WithTimeout(background, time.Second)
		defer stop()
		if err := s.Acquire(bounded, 3); err != nil {
			t.Errorf("the waiter for all: %v", err)
		} else {
			kit.OK(t, s.Release(3))
		}
		cancel()
		wg.Wait()
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
