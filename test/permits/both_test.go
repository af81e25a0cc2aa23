package permits

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What both semaphores do.

// A caller that is cancelled takes nothing, at whichever moment, whether or not
// it stood in line; nor does one whom Redis did not answer.
func TestCancelledSemaphoreCallersTakeNothing(t *testing.T) {
	callers(t, func(t *testing.T, fault memdriver.Fault, after time.Duration) {
		for _, waited := range []bool{false, true} {
			forBoth(t, 5, func(t *testing.T, w *kit.World, k *counting) {
				c, d := w.Client()
				var other func() error
				if waited {
					other = k.take(t, c, 4)
				} else {
					kit.Once(d, "acquire", fault)
				}
				ctx, cancel := context.WithCancel(background)
				defer cancel()
				done := make(chan error)
				go func() {
					back, err := k.acquire(ctx, c, 2)
					if err == nil {
						kit.OK(t, back())
					}
					done <- err
				}()
				if waited {
					time.Sleep(time.Second)
					kit.Once(d, "acquire", fault) // the try after the release
					kit.OK(t, other())
				}
				time.Sleep(after)
				cancel()
				if err := <-done; err != nil {
					kit.WantError(t, err, context.Canceled)
				}
				time.Sleep(5 * time.Second)
				w.WantReply("5", "GET", "x")
				w.WantReply("0", "EXISTS", "holdfast_next:{x}", kit.LineKey("x"))
			})
		}
	})
}

// Waiters for one do not starve a waiter for many: it gets its permits within one
// round of releases, though others ask without end.
func TestManyAreNotStarvedByOnes(t *testing.T) {
	forBoth(t, 3, func(t *testing.T, w *kit.World, k *counting) {
		stop := k.stream(t, w, 6, 7*time.Millisecond)
		c, _ := w.Client()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		back, err := k.acquire(ctx, c, 3)
		stop()
		kit.OK(t, err)
		kit.OK(t, back())
	})
}

// L2: a waiter to whom nothing is said waits no longer than three seconds for what is there.
func TestL2_PermitsAreFoundWithoutMessage(t *testing.T) {
	forBoth(t, 2, func(t *testing.T, w *kit.World, k *counting) {
		a, _ := w.Client()
		c, d := w.Client()
		other := k.take(t, a, 2)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { kit.OK(t, k.take(t, c, 1)()) })
		}
		time.Sleep(10 * time.Second)
		d.LoseMessages(true)
		start := time.Now()
		kit.OK(t, other())
		wg.Wait()
		within(t, start, 0, 3*time.Second)
	})
}

// L4: no waiter of a process sleeps beside permits that it could have, and those of the first are kept for it.
func TestL4_NobodySleepsBesideFreePermits(t *testing.T) {
	forBoth(t, 4, func(t *testing.T, w *kit.World, k *counting) {
		a, _ := w.Client()
		c, _ := w.Client()
		all := k.take(t, a, 4)
		var wg sync.WaitGroup
		var in atomic.Int32
		for _, n := range []int{3, 1, 1, 2, 1} {
			wg.Go(func() {
				back := k.take(t, c, n)
				in.Add(int32(n))
				time.Sleep(10 * time.Millisecond)
				in.Add(int32(-n))
				kit.OK(t, back())
			})
			synctest.Wait()
		}
		if k.name == "semaphore" {
			s := a.NewUnleasedSemaphore("x")
			kit.OK(t, s.Release(1))
			time.Sleep(time.Second)
			if w.WantReply("1", "GET", "x"); in.Load() > 0 {
				t.Errorf("%d are taken that the first waits for", in.Load())
			}
			all = func() error { return s.Release(3) }
		}
		start := time.Now()
		kit.OK(t, all())
		wg.Wait()
		within(t, start, 20*time.Millisecond, 30*time.Millisecond) // 3+1, then 1+2+1, each for 10 ms
	})
}

// One who wants more than there will be for long holds back those who want one for
// ten seconds at a stretch, and then lets them by for as long.
func TestGreedyWaiterLetsOthersBy(t *testing.T) {
	forBoth(t, 5, func(t *testing.T, w *kit.World, k *counting) {
		a, _ := w.Client()
		back := k.take(t, a, 1) // it keeps one, so there are never five
		ctx, cancel := context.WithCancel(background)
		gone := refusing(t, func() error { _, err := k.acquire(ctx, a, 5); return err }, context.Canceled)
		time.Sleep(time.Second)
		const run = time.Minute
		stop := k.stream(t, w, 2, 100*time.Millisecond)
		time.Sleep(run)
		var last, longest, let time.Duration
		for _, at := range append(stop(), run) {
			gap := at - last
			longest, last = max(longest, gap), at
			if gap < time.Second {
				let += gap
			}
		}
		if longest > 10200*time.Millisecond || longest < 9900*time.Millisecond || let < run/3 {
			t.Errorf("they were held back for %v at a stretch, and let by for %v of %v", longest, let, run)
		}
		cancel()
		gone()
		kit.OK(t, back())
	})
}

// One who wants all of them gets them in its next turn if it did not in the first,
// because one permit was held for longer than that. A turn is his who is refused
// first, so with others that work for long it may pass by a few times, and it may be
// so late that the first is enough.
func TestBigRequestGetsItsTurnAgain(t *testing.T) {
	for work, bounds := range map[time.Duration][2]time.Duration{
		200 * time.Millisecond: {20 * time.Second, 24 * time.Second},
		4 * time.Second:        {0, 70 * time.Second},
	} {
		t.Run(fmt.Sprint(work), func(t *testing.T) {
			forBoth(t, 5, func(t *testing.T, w *kit.World, k *counting) {
				a, _ := w.Client()
				long := k.take(t, a, 1)
				stop := k.stream(t, w, 6, work)
				time.AfterFunc(15*time.Second, func() { kit.OK(t, long()) })
				big, _ := w.Client()
				start := time.Now()
				back := k.take(t, big, 5)
				// Others are held back for the first time when one of them comes back; then
				// for two turns, with the time between them, the last until all are back.
				within(t, start, bounds[0], bounds[1])
				kit.OK(t, back())
				stop()
			})
		})
	}
}

// Beside one that can never be let in, another big one gets its turn, too.
func TestGreedyWaiterDoesNotStarveTheNext(t *testing.T) {
	k := &bothSemaphores[1]
	k.world(t, 5, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		ctx, cancel := context.WithCancel(background)
		gone := refusing(t, func() error { _, err := k.acquire(ctx, a, 6); return err }, context.Canceled)
		time.Sleep(time.Second)
		stop := k.stream(t, w, 6, 200*time.Millisecond)
		big, _ := w.Client()
		start := time.Now()
		back := k.take(t, big, 5)
		within(t, start, 0, 10*time.Minute) // each 20 s it is its turn or the greedy one's, by chance
		kit.OK(t, back())
		stop()
		cancel()
		gone()
	})
}

// L22: what asks for no permits, or for too many, is refused before it is sent. So is what a name or a context forbids.
func TestL22_NoPermitsAreRefused(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		s, p, l := c.NewUnleasedSemaphore("x"), c.NewPermitSemaphore("x"), c.NewLatch("x")
		invalid := func(errs ...error) {
			t.Helper()
			for _, err := range errs {
				kit.WantError(t, err, holdfast.ErrInvalid)
			}
		}
		for _, n := range []int{0, -1, holdfast.MaxCount + 1} {
			invalid(s.Acquire(background, n), s.TryAcquire(background, n), s.Release(n))
			invalid(errOf(s.ReleaseIfExists(n)), errOf(l.TrySetCount(background, n)))
		}
		for _, n := range []int{0, -1, holdfast.MaxPermitsPerHold + 1} {
			invalid(errOf(p.Acquire(background, n)), errOf(p.TryAcquire(background, n)))
		}
		invalid(errOf(s.TrySetPermits(background, -1)), s.AddPermits(background, -holdfast.MaxCount-1))
		invalid(errOf(p.TrySetPermits(background, -1)), p.SetPermits(background, -1), s.Acquire(background, 1, nil),
			p.AddPermits(background, holdfast.MaxCount+1),
			p.ReleasePermits(background), p.ExtendPermit(background, kit.PermitID("00000000000000000000000000000000"), 0),
			l.Await(background, nil))
		for _, id := range []holdfast.Owner{{}, c.NewOwner()} {
			invalid(p.ReleasePermits(background, id), p.ExtendPermit(background, id, time.Minute))
		}
		for _, bad := range []string{"", "a}b"} {
			invalid(c.NewUnleasedSemaphore(bad).Acquire(background, 1), c.NewUnleasedSemaphore(bad).Release(1),
				c.NewPermitSemaphore(bad).AddPermits(background, 1), c.NewLatch(bad).Await(background), c.NewLatch(bad).CountDown())
		}
		ended, end := context.WithCancel(background)
		end()
		kit.WantError(t, l.Await(ended), context.Canceled)
		if n := seen.All(); n > 0 {
			t.Errorf("%d calls were sent", n)
		}
		kit.OK(t, c.Close())
		for _, err := range []error{s.Acquire(background, 1), s.Release(1), l.CountDown()} {
			kit.WantError(t, err, holdfast.ErrClosed)
		}
	})
}

// errOf is the error of a call that returns something else, too.
func errOf[T any](_ T, err error) error { return err }
