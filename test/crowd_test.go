package test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Of many processes that wait, a few ask at each release, and the lock does not stand free for
// long.
func TestCrowd(t *testing.T) {
	const processes = 60
	fake(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		acquires, holds := 0, 0
		var free, longest time.Duration
		var freeSince time.Time
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		for range processes {
			c, d := w.client()
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				mu.Lock()
				defer mu.Unlock()
				if call.Script.SHA() == mutexKind.scripts.Acquire.SHA() {
					acquires++
				}
				return memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond}
			})
			all.Go(func() {
				for ctx.Err() == nil {
					h, err := c.NewMutex("x").Lock(ctx)
					if err != nil {
						continue
					}
					mu.Lock()
					if !freeSince.IsZero() {
						free, longest = free+time.Since(freeSince), max(longest, time.Since(freeSince))
					}
					holds++
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
					mu.Lock()
					freeSince = time.Now()
					mu.Unlock()
					unlock(t, h)
				}
			})
		}
		time.Sleep(5 * time.Second) // all have been refused, and know how many they are
		mu.Lock()
		acquires, holds, free, longest = 0, 0, 0, 0
		mu.Unlock()
		time.Sleep(10 * time.Second)
		mu.Lock()
		t.Logf("%d hand-overs, %d tries each, after %v, at longest %v", holds, acquires/holds, free/time.Duration(holds), longest)
		// Some eight ask before they hear of the winner, and if nobody drew a delay, all 60 would.
		// The way of a release and of a try takes 3 ms, and the shortest of 60 delays of up to
		// 15 ms next to nothing. The longest is as long as all delays can be.
		if acquires > 12*holds || free > time.Duration(holds)*5*time.Millisecond || longest > 18*time.Millisecond {
			t.Error("too many ask, or too late")
		}
		mu.Unlock()
		cancel()
		all.Wait()
	})
}

// Those who only wait ask a hundred times a second, all together, however many they are.
func TestCrowdThatWaits(t *testing.T) {
	const processes = 400 // if each asked every three seconds, they would ask 133 times
	fake(t, func(t *testing.T, w *world) {
		var tries atomic.Int64
		holder, _ := w.client()
		h := must(t)(holder.NewMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		var waiters sync.WaitGroup
		for range processes {
			c, d := w.client()
			d.SetFaults(func(driver.Call) memdriver.Fault {
				tries.Add(1)
				return memdriver.Fault{}
			})
			waiters.Go(func() {
				if h, err := c.NewMutex("x").Lock(ctx); err == nil {
					unlock(t, h)
				}
			})
		}
		time.Sleep(12 * time.Second) // all have been refused twice at least, and know how many they are
		before := tries.Load()
		time.Sleep(20 * time.Second)
		// They sleep for random times, so it is 2,000 give or take 15.
		if n := tries.Load() - before; n > 2200 || n < 1800 {
			t.Errorf("%d tries in 20 s", n)
		}
		cancel()
		waiters.Wait()
		unlock(t, h)
	})
}

// Whoever gets the lock calls the others off, and dies. It has a short lease, which none of them
// has heard of: the lock is not free for long.
func TestCrowdCalledOffByTheDead(t *testing.T) {
	const processes = 30
	fake(t, func(t *testing.T, w *world) {
		holder, _ := w.client()
		h := must(t)(holder.NewMutex("x").Lock(background))
		got := make(chan time.Time)
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		var drivers []*memdriver.Driver
		for range processes {
			c, d := w.client()
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: 10 * time.Millisecond} })
			drivers = append(drivers, d)
			all.Go(func() {
				if _, err := c.NewMutex("x").Lock(ctx, holdfast.FixedLease(200*time.Millisecond)); err == nil {
					got <- time.Now()
				}
			})
		}
		time.Sleep(10 * time.Second) // all know how many they are, and that the way is long
		for _, d := range drivers {
			d.SetFaults(nil) // it is short now: nobody asks before the one who gets it has called them off
		}
		unlock(t, h)
		first := <-got
		if free := (<-got).Sub(first) - 200*time.Millisecond; free > 1200*time.Millisecond {
			t.Errorf("the lock was free for %v", free)
		}
		cancel()
		go func() { all.Wait(); close(got) }()
		for range got {
		}
		time.Sleep(time.Second) // until the last lease has ended
	})
}
