package permits

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// latchWorld is kit.Fake with a latch at n, which is gone at the end, as is
// everything else.
func latchWorld(t *testing.T, n int, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		if set, err := c.NewLatch("x").TrySetCount(background, n); !set || err != nil {
			t.Fatal(set, err)
		}
		t.Cleanup(func() { time.Sleep(kit.CallsLive) })
		f(t, w)
	})
}

// awaiters starts n waiters in a client each, and returns how long the last one
// waited from the call of the returned function on.
func awaiters(t *testing.T, w *kit.World, n int) (last func() time.Duration, drivers []*memdriver.Driver) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		c, d := w.Client()
		drivers = append(drivers, d)
		wg.Go(func() { kit.OK(t, c.NewLatch("x").Await(background)) })
	}
	time.Sleep(time.Second)
	return func() time.Duration {
		start := time.Now()
		wg.Wait()
		return time.Since(start)
	}, drivers
}

func TestLatchCountsDown(t *testing.T) {
	latchWorld(t, 3, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		l := c.NewLatch("x")
		last, _ := awaiters(t, w, 3)
		for want := 3; want > 0; want-- {
			if n, err := kit.Remaining(l); n != want || err != nil {
				t.Errorf("count %d, %v; want %d", n, err, want)
			}
			kit.WantError(t, l.Await(background, holdfast.Wait(time.Second)), holdfast.ErrNotZero)
			kit.OK(t, l.CountDown())
		}
		if took := last(); took > 0 {
			t.Errorf("waited %v after zero", took)
		}
		w.WantReply("0", "EXISTS", "x")
		kit.OK(t, l.CountDown(), l.Await(background))
		if n, err := kit.Remaining(l); n != 0 || err != nil {
			t.Errorf("count %d, %v", n, err)
		}
		if set, err := l.TrySetCount(background, 2); !set || err != nil {
			t.Error(set, err)
		}
		if set, err := l.TrySetCount(background, 3); set || err != nil {
			t.Error(set, err)
		}
		w.WantReply("2", "GET", "x")
		if deleted, err := l.Delete(background); !deleted || err != nil {
			t.Error(deleted, err)
		}
		if deleted, err := l.Delete(background); deleted || err != nil {
			t.Error(deleted, err)
		}
	})
}

// Many waiters of one process are let in at once, with one subscription.
func TestLatchLetsAllOfAProcessIn(t *testing.T) {
	latchWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { kit.OK(t, c.NewLatch("x").Await(background)) })
		}
		time.Sleep(30 * time.Second)
		if n := seen.Of("await"); n > 12+50 {
			t.Errorf("%d questions in 30 s", n)
		}
		w.WantReply("redisson_countdownlatch__channel__{x} 1", "PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{x}")
		start := time.Now()
		kit.OK(t, c.NewLatch("x").CountDown())
		wg.Wait()
		if took := time.Since(start); took > 0 {
			t.Errorf("the last one waited %v", took)
		}
	})
}

// Whoever comes asks once before it stands in line. Only the head of the line asks
// again: there, and once its subscription stands.
func TestLatchAsksOnceBeforeItWaits(t *testing.T) {
	latchWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		var wg sync.WaitGroup
		for _, want := range []int{3, 4, 5} {
			wg.Go(func() { kit.OK(t, c.NewLatch("x").Await(background)) })
			synctest.Wait()
			if n := seen.Of("await"); n != want {
				t.Errorf("%d questions, want %d", n, want)
			}
		}
		kit.OK(t, c.NewLatch("x").CountDown())
		wg.Wait()
	})
}

// TestLatchHasOneEffect goes through the operations with each fault at each.
func TestLatchHasOneEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		t.Run(name, func(t *testing.T) {
			latchWorld(t, 3, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				l := c.NewLatch("x")
				kit.Once(d, "down", fault)
				kit.OK(t, l.CountDown())
				w.WantReply("2", "GET", "x")
				time.Sleep(5 * time.Second)
				w.WantReply("2", "GET", "x")
				kit.Once(d, "set", fault)
				if deleted, err := l.Delete(background); !deleted || err != nil {
					t.Error(deleted, err)
				}
				kit.Once(d, "set", fault)
				if set, err := l.TrySetCount(background, 1); !set || err != nil {
					t.Error(set, err)
				}
				w.WantReply("1", "GET", "x")
				time.Sleep(time.Minute)
				w.WantReply("1", "GET", "x")
				kit.Once(d, "down", fault)
				kit.OK(t, l.CountDown())
				kit.Once(d, "await", fault)
				kit.OK(t, l.Await(background))
			})
		})
	}
}

// A CountDown counts once even if Redis is away.
func TestCountDownCountsWhateverHappens(t *testing.T) {
	for name, fault := range kit.Faults {
		t.Run(name, func(t *testing.T) {
			latchWorld(t, 2, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				l := c.NewLatch("x")
				kit.Once(d, "down", fault)
				kit.OK(t, l.CountDown())
				time.Sleep(30 * time.Second)
				w.WantReply("1", "GET", "x")
				kit.OK(t, l.CountDown())
			})
		})
	}
	latchWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		var failed *holdfast.BackendError
		if err := c.NewLatch("x").CountDown(); !errors.As(err, &failed) || !failed.MayHaveRun {
			t.Errorf("CountDown: %v", err)
		}
		time.Sleep(20 * time.Second)
		w.WantReply("1", "GET", "x")
		d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		w.WantReply("0", "EXISTS", "x")
	})
}

// L14: deletion and expiry let everybody who waits go on, messages or not.
func TestL14_EveryEndEndsTheWait(t *testing.T) {
	for name, end := range map[string]struct {
		do    func(t *testing.T, w *kit.World)
		bound time.Duration
	}{
		"Delete": {func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			if deleted, err := c.NewLatch("x").Delete(background); !deleted || err != nil {
				t.Error(deleted, err)
			}
		}, 0},
		"DEL":    {func(_ *testing.T, w *kit.World) { w.Do("DEL", "x") }, 3 * time.Second},
		"expiry": {func(_ *testing.T, w *kit.World) { w.Do("PEXPIRE", "x", "10500") }, 10505 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			latchWorld(t, 3, func(t *testing.T, w *kit.World) {
				last, _ := awaiters(t, w, 2)
				end.do(t, w)
				if took := last(); took > end.bound {
					t.Errorf("waited %v", took)
				}
			})
		})
	}
}

// L2: a message that is lost costs three seconds at most, and nothing once the
// subscription stands again.
func TestL2_LatchWithoutMessages(t *testing.T) {
	for _, back := range []time.Duration{0, 500 * time.Millisecond} {
		latchWorld(t, 1, func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			last, drivers := awaiters(t, w, 1)
			drivers[0].LoseMessages(true)
			kit.OK(t, c.NewLatch("x").CountDown())
			bound := 3 * time.Second
			if back > 0 {
				bound = back
				time.AfterFunc(back, func() { drivers[0].LoseMessages(false) })
			}
			if took := last(); took > bound {
				t.Errorf("messages back after %v: waited %v", back, took)
			}
		})
	}
}

// A CountDown that found zero is done. An earlier send of it that comes late does not count down
// the latch that was set since.
func TestLatchCountsNothingLate(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		l := other.NewLatch("x")
		kit.Once(d, "down", memdriver.Fault{DelayRequest: 2100 * time.Millisecond})
		kit.OK(t, c.NewLatch("x").CountDown()) // its second send is answered after 2 s
		if set, err := l.TrySetCount(background, 2); !set || err != nil {
			t.Fatal(set, err)
		}
		time.Sleep(time.Second)
		if n, err := kit.Remaining(l); n != 2 || err != nil {
			t.Errorf("count %d, %v; want 2", n, err)
		}
		if deleted, err := l.Delete(background); !deleted || err != nil {
			t.Error(deleted, err)
		}
		time.Sleep(kit.CallsLive)
	})
}

// Payloads are what Redisson decodes: "0" at zero, "1" at a new count and at a
// deletion, and nothing else; the channel has braces in any case.
func TestLatchAnnouncements(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var mu sync.Mutex
		var said []string
		listener := w.Server.Driver().Listen(func(e driver.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == driver.Message {
				said = append(said, e.Payload)
			}
		})
		defer listener.Close()
		listener.Subscribe("redisson_countdownlatch__channel__{{a}b}")
		synctest.Wait()
		c, _ := w.Client()
		l := c.NewLatch("{a}b")
		for range 2 {
			if set, err := l.TrySetCount(background, 2); !set || err != nil {
				t.Fatal(set, err)
			}
			kit.OK(t, l.CountDown(), l.CountDown(), l.CountDown())
		}
		if set, err := l.TrySetCount(background, 2); !set || err != nil {
			t.Fatal(set, err)
		}
		if deleted, err := l.Delete(background); !deleted || err != nil {
			t.Fatal(deleted, err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"1", "0", "1", "0", "1", "1"}; !slices.Equal(said, want) {
			t.Errorf("announced %v, want %v", said, want)
		}
		time.Sleep(2 * time.Minute)
	})
}

func TestLatchRefusesBeforeSending(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		l := c.NewLatch("x")
		for _, n := range []int{0, -1, holdfast.MaxCount + 1} {
			_, err := l.TrySetCount(background, n)
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
		kit.WantError(t, l.Await(background, nil), holdfast.ErrInvalid)
		for _, bad := range []string{"", "a}b"} {
			kit.WantError(t, c.NewLatch(bad).Await(background), holdfast.ErrInvalid)
			kit.WantError(t, c.NewLatch(bad).CountDown(), holdfast.ErrInvalid)
		}
		ended, end := context.WithCancel(background)
		end()
		kit.WantError(t, l.Await(ended), context.Canceled)
		if n := seen.All(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
		kit.OK(t, c.Close())
		kit.WantError(t, l.CountDown(), holdfast.ErrClosed)
	})
}

// L14: nor does it keep one who came while another waited, and who never looked by
// itself before.
func TestL14_SetAnewBeforeTheNextInLineLooks(t *testing.T) {
	latchWorld(t, 1, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { kit.OK(t, c.NewLatch("x").Await(background, holdfast.Wait(10*time.Second))) })
			synctest.Wait()
		}
		time.Sleep(time.Millisecond) // what comes now is after they came
		d.LoseMessages(true)
		other, _ := w.Client()
		kit.OK(t, other.NewLatch("x").CountDown())
		if set, err := other.NewLatch("x").TrySetCount(background, 5); !set || err != nil {
			t.Errorf("set anew: %v, %v", set, err)
		}
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("waited %v", took)
		}
		d.LoseMessages(false)
		w.Do("DEL", "x")
	})
}

// L14: a latch that is set anew before a waiter has looked does not keep it, even
// if every message is lost.
func TestL14_SetAnewBeforeTheWaiterLooks(t *testing.T) {
	for _, lose := range []bool{false, true} {
		latchWorld(t, 1, func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			last, drivers := awaiters(t, w, 1)
			drivers[0].LoseMessages(lose)
			kit.OK(t, c.NewLatch("x").CountDown())
			if set, err := c.NewLatch("x").TrySetCount(background, 5); !set || err != nil {
				t.Errorf("set anew: %v, %v", set, err)
			}
			if took := last(); took > 3*time.Second {
				t.Errorf("waited %v", took)
			}
			// One who comes now waits for the new count.
			err := c.NewLatch("x").Await(background, holdfast.Wait(10*time.Second))
			kit.WantError(t, err, holdfast.ErrNotZero)
			w.Do("DEL", "x")
		})
	}
}

// The same of one that expires, which nothing announces and no call notes.
func TestL14_SetAnewAfterItHasExpired(t *testing.T) {
	latchWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		l := c.NewLatch("x")
		if there, err := l.Expire(background, 10*time.Second); !there || err != nil {
			t.Fatal(there, err)
		}
		awaited := make(chan error)
		go func() { awaited <- l.Await(background, holdfast.Wait(time.Minute)) }()
		time.Sleep(9990 * time.Millisecond)
		for set := false; !set; time.Sleep(100 * time.Microsecond) { // before the waiter looks, a millisecond later
			var err error
			set, err = l.TrySetCount(background, 3)
			kit.OK(t, err)
		}
		kit.OK(t, <-awaited)
		kit.WantError(t, l.Await(background, holdfast.Wait(10*time.Second)), holdfast.ErrNotZero)
		w.Do("DEL", "x")
	})
}
