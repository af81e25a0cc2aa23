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

// A caller that is cancelled takes nothing, at whichever moment, whether or not it stood in line; nor does one whom Redis did not
// answer.
func TestCancelledSemaphoreCallersTakeNothing(t *testing.T) {
	const ms = time.Millisecond
	for name, fault := range map[string]memdriver.Fault{
		"slow":       {DelayRequest: 10 * ms, DelayReply: 10 * ms},
		"reply lost": {DelayRequest: 10 * ms, LoseReply: true},
		"very late":  {DelayRequest: 2200 * ms},
		"repeated":   {DelayReply: 10 * ms, Repeat: true, RepeatAfter: 5 * ms},
	} {
		for i := range 8 {
			after, waited := []time.Duration{0, ms, 15 * ms, 20 * ms}[i/2], i%2 == 1
			t.Run(fmt.Sprint(name, after, waited), func(t *testing.T) {
				forBoth(t, 5, func(k counting) {
					other := func() error { return nil }
					if waited {
						other = k.take(k.c, 4)
					} else {
						kit.Next(k.d, "acquire", fault)
					}
					ctx, cancel := context.WithCancel(background)
					defer cancel()
					done := kit.Aside(func() error {
						back, err := k.try(ctx, k.c, 2)
						if err == nil {
							kit.NoError(k.T, back())
						}
						return err
					})
					if waited {
						time.Sleep(time.Second)
						kit.Next(k.d, "acquire", fault) // the try after the release
					}
					kit.OK(k.T, other())
					time.Sleep(after)
					cancel()
					if err := <-done; err != nil {
						kit.WantError(k.T, err, context.Canceled)
					}
					time.Sleep(5 * time.Second)
					k.WantReply("5", "GET", "x")
					k.WantReply("0", "EXISTS", "holdfast_next:{x}", kit.WaitlistKey("x"))
				})
			})
		}
	}
}

// Waiters for one do not starve a waiter for many: it gets its permits within one round of releases, though others ask without end.
func TestManyAreNotStarvedByOnes(t *testing.T) {
	forBoth(t, 3, func(k counting) {
		stop := k.stream(6, 7*time.Millisecond)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		back, err := k.try(ctx, k.c, 3)
		stop()
		kit.OK(k.T, err)
		kit.OK(k.T, back())
	})
}

// L2: a waiter to whom nothing is said waits no longer than three seconds for what is there.
func TestL2_PermitsAreFoundWithoutMessage(t *testing.T) {
	forBoth(t, 2, func(k counting) {
		other := k.take(k.other, 2)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { k.turn(1, func() {}) })
		}
		time.Sleep(10 * time.Second)
		k.d.LoseMessages(true)
		start := time.Now()
		kit.OK(k.T, other())
		wg.Wait()
		within(k.T, start, 0, 3*time.Second)
	})
}

// L4: no waiter of a process sleeps beside permits that it could have, and those of the first are kept for it.
func TestL4_NobodySleepsBesideFreePermits(t *testing.T) {
	forBoth(t, 4, func(k counting) {
		all := k.take(k.other, 4)
		var wg sync.WaitGroup
		var in atomic.Int32
		for _, n := range []int{3, 1, 1, 2, 1} {
			wg.Go(func() {
				k.turn(n, func() {
					in.Add(int32(n))
					time.Sleep(10 * time.Millisecond)
					in.Add(int32(-n))
				})
			})
			synctest.Wait()
		}
		if k.name == "semaphore" {
			s := k.other.NewUnleasedSemaphore("x")
			kit.OK(k.T, s.Release(1))
			time.Sleep(time.Second)
			if k.WantReply("1", "GET", "x"); in.Load() > 0 {
				k.T.Errorf("%d are taken that the first waits for", in.Load())
			}
			all = func() error { return s.Release(3) }
		}
		start := time.Now()
		kit.OK(k.T, all())
		wg.Wait()
		within(k.T, start, 20*time.Millisecond, 30*time.Millisecond) // 3+1, then 1+2+1, each for 10 ms
	})
}

// One who wants more than there will be for long holds back those who want one for ten seconds at a stretch, and then lets them by for
// as long.
func TestGreedyWaiterLetsOthersBy(t *testing.T) {
	forBoth(t, 5, func(k counting) {
		back := k.take(k.c, 1) // it keeps one, so there are never five
		away := k.waits(5)
		const run = time.Minute
		stop := k.stream(2, 100*time.Millisecond)
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
			k.T.Errorf("they were held back for %v at a stretch, and let by for %v of %v", longest, let, run)
		}
		away()
		kit.OK(k.T, back())
	})
}

// One who wants all of them gets them in its next turn if it did not in the first, because one permit was held for longer than that.
// A turn is his who is refused first, so with others that work for long it may pass by a few times, and it may be so late that the
// first is enough.
func TestBigRequestGetsItsTurnAgain(t *testing.T) {
	for work, bounds := range map[time.Duration][2]time.Duration{
		200 * time.Millisecond: {20 * time.Second, 24 * time.Second},
		4 * time.Second:        {0, 70 * time.Second},
	} {
		t.Run(fmt.Sprint(work), func(t *testing.T) {
			forBoth(t, 5, func(k counting) {
				long := k.take(k.other, 1)
				stop := k.stream(6, work)
				time.AfterFunc(15*time.Second, func() { kit.NoError(k.T, long()) })
				start := time.Now()
				back := k.take(k.c, 5)
				// Others are held back for the first time when one of them comes back; then
				// for two turns, with the time between them, the last until all are back.
				within(k.T, start, bounds[0], bounds[1])
				kit.OK(k.T, back())
				stop()
			})
		})
	}
}

// Beside one that can never be let in, another big one gets its turn, too.
func TestGreedyWaiterDoesNotStarveTheNext(t *testing.T) {
	on(t, "semaphore", 5, func(s *stage) {
		k := counting{s, "semaphore"}
		away := k.waits(6)
		stop := k.stream(6, 200*time.Millisecond)
		start := time.Now()
		back := k.take(k.c, 5)
		within(k.T, start, 0, 10*time.Minute) // each 20 s it is its turn or the greedy one's, by chance
		kit.OK(k.T, back())
		stop()
		away()
	})
}

// L22: what asks for no permits, or for too many, is refused before it is sent. So is what a name or a context forbids.
func TestL22_NoPermitsAreRefused(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		seen := kit.Count(s.d)
		c, u, p, l := s.c, s.semaphore, s.permits, s.latch
		invalid := func(errs ...error) {
			s.T.Helper()
			for _, err := range errs {
				kit.WantError(s.T, err, holdfast.ErrInvalid)
			}
		}
		for _, n := range []int{0, -1, holdfast.MaxCount + 1} {
			invalid(u.Acquire(background, n), u.TryAcquire(background, n), u.Release(n))
			invalid(kit.ErrOf(u.ReleaseIfExists(n)), kit.ErrOf(l.TrySetCount(background, n)))
		}
		for _, n := range []int{0, -1, holdfast.MaxPermitsPerHold + 1} {
			invalid(kit.ErrOf(p.Acquire(background, n)), kit.ErrOf(p.TryAcquire(background, n)))
		}
		invalid(kit.ErrOf(u.TrySetPermits(background, -1)), u.AddPermits(background, -holdfast.MaxCount-1))
		invalid(kit.ErrOf(p.TrySetPermits(background, -1)), p.SetPermits(background, -1), u.Acquire(background, 1, nil),
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
		kit.WantError(s.T, l.Await(ended), context.Canceled)
		want(s.T, 0)(seen.All(), nil)
		kit.OK(s.T, c.Close())
		for _, err := range []error{u.Acquire(background, 1), u.Release(1), l.CountDown()} {
			kit.WantError(s.T, err, holdfast.ErrClosed)
		}
	})
}
