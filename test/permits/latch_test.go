package permits

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// awaiters starts n waiters in a client each. What is returned waits for the last one, and returns when it was called.
func awaiters(t *testing.T, w *kit.World, n int) (last func() time.Time, drivers []*memdriver.Driver) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		c, d := w.Client()
		drivers = append(drivers, d)
		wg.Go(func() { kit.OK(t, c.NewLatch("x").Await(background)) })
	}
	time.Sleep(time.Second)
	return func() time.Time {
		start := time.Now()
		wg.Wait()
		return start
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
		within(t, last(), 0, 0)
		w.WantReply("0", "EXISTS", "x")
		kit.OK(t, l.CountDown(), l.Await(background))
		if n, err := kit.Remaining(l); n != 0 || err != nil {
			t.Errorf("count %d, %v", n, err)
		}
		wantDid(t, true)(l.TrySetCount(background, 2))
		wantDid(t, false)(l.TrySetCount(background, 3))
		w.WantReply("2", "GET", "x")
		wantDid(t, true)(l.Delete(background))
		wantDid(t, false)(l.Delete(background))
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
		within(t, start, 0, 0)
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
	underFaults(t, "latch", 3, func(t *testing.T, w *kit.World, c *holdfast.Client, once func(string)) {
		l := c.NewLatch("x")
		once("down")
		kit.OK(t, l.CountDown())
		w.WantReply("2", "GET", "x")
		time.Sleep(30 * time.Second)
		w.WantReply("2", "GET", "x")
		once("set")
		wantDid(t, true)(l.Delete(background))
		once("set")
		wantDid(t, true)(l.TrySetCount(background, 1))
		w.WantReply("1", "GET", "x")
		time.Sleep(time.Minute)
		w.WantReply("1", "GET", "x")
		once("down")
		kit.OK(t, l.CountDown())
		once("await")
		kit.OK(t, l.Await(background))
	})
}

// A CountDown counts once even if Redis is away.
func TestCountDownCountsWhateverHappens(t *testing.T) {
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
			wantDid(t, true)(c.NewLatch("x").Delete(background))
		}, 0},
		"DEL":    {func(_ *testing.T, w *kit.World) { w.Do("DEL", "x") }, 3 * time.Second},
		"expiry": {func(_ *testing.T, w *kit.World) { w.Do("PEXPIRE", "x", "10500") }, 10505 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			latchWorld(t, 3, func(t *testing.T, w *kit.World) {
				last, _ := awaiters(t, w, 2)
				end.do(t, w)
				within(t, last(), 0, end.bound)
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
			within(t, last(), 0, bound)
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
		wantDid(t, true)(l.TrySetCount(background, 2))
		time.Sleep(time.Second)
		if n, err := kit.Remaining(l); n != 2 || err != nil {
			t.Errorf("count %d, %v; want 2", n, err)
		}
		wantDid(t, true)(l.Delete(background))
		time.Sleep(kit.CallsLive)
	})
}

// Payloads are what Redisson decodes: "0" at zero, "1" at a new count and at a
// deletion, and nothing else; the channel has braces in any case.
func TestLatchAnnouncements(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		said := announced(w, "redisson_countdownlatch__channel__{{a}b}")
		c, _ := w.Client()
		l := c.NewLatch("{a}b")
		for range 2 {
			wantDid(t, true)(l.TrySetCount(background, 2))
			kit.OK(t, l.CountDown(), l.CountDown(), l.CountDown())
		}
		wantDid(t, true)(l.TrySetCount(background, 2))
		wantDid(t, true)(l.Delete(background))
		if got, want := said(), []string{"1", "0", "1", "0", "1", "1"}; !slices.Equal(got, want) {
			t.Errorf("announced %v, want %v", got, want)
		}
		time.Sleep(2 * time.Minute)
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
		wantDid(t, true)(other.NewLatch("x").TrySetCount(background, 5))
		start := time.Now()
		wg.Wait()
		within(t, start, 0, 3*time.Second)
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
			wantDid(t, true)(c.NewLatch("x").TrySetCount(background, 5))
			within(t, last(), 0, 3*time.Second)
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
		wantDid(t, true)(l.Expire(background, 10*time.Second))
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
