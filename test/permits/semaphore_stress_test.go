package permits

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// unlucky makes every third call suffer one of the faults, chosen by a random
// source of its own.
func unlucky(d *memdriver.Driver, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	names := slices.Sorted(maps.Keys(kit.Faults))
	d.SetFaults(func(driver.Call) memdriver.Fault {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(3) > 0 {
			return memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond}
		}
		return kit.Faults[names[random.IntN(len(names))]]
	})
}

// hustle has n goroutines in several clients take turns at something, whose
// messages are lost, late and doubled, and give up at random.
func hustle(w *kit.World, seed uint64, turn func(ctx context.Context, c *holdfast.Client, n int, work time.Duration)) {
	var wg sync.WaitGroup
	for i := range uint64(3) {
		c, d := w.Client()
		unlucky(d, seed*10+i)
		for g := range uint64(3) {
			random := rand.New(rand.NewPCG(seed, i*10+g))
			wg.Go(func() {
				for range 12 {
					ctx, cancel := context.WithTimeout(background, time.Duration(random.IntN(12_000)+1)*time.Millisecond)
					turn(ctx, c, random.IntN(3)+1, time.Duration(random.IntN(3000))*time.Millisecond)
					cancel()
				}
			})
		}
	}
	wg.Wait()
}

// Whatever happens to messages, and whoever gives up: no permit is lost, none is
// made, and no more are used at once than there are.
func TestSemaphoreUnderFaults(t *testing.T) {
	for seed := range uint64(4) {
		kit.CounterWorld(t, 4, func(t *testing.T, w *kit.World) {
			var used, most, grants atomic.Int64
			hustle(w, seed, func(ctx context.Context, c *holdfast.Client, n int, work time.Duration) {
				s := c.NewUnleasedSemaphore("x")
				if s.Acquire(ctx, n) != nil {
					return
				}
				grants.Add(1)
				if now := used.Add(int64(n)); now > most.Load() {
					most.Store(now)
				}
				time.Sleep(work)
				used.Add(int64(-n))
				_ = s.Release(n) // it is repeated in the background
			})
			if most.Load() > 4 || grants.Load() < 20 {
				t.Errorf("seed %d: %d permits of 4 used, in %d grants", seed, most.Load(), grants.Load())
			}
			time.Sleep(2 * time.Minute)
		})
	}
}

func TestPermitsUnderFaults(t *testing.T) {
	for seed := range uint64(4) {
		kit.PermitsWorld(t, 4, func(t *testing.T, w *kit.World) {
			var used, most, grants atomic.Int64
			hustle(w, seed, func(ctx context.Context, c *holdfast.Client, n int, work time.Duration) {
				h, err := c.NewPermitSemaphore("x").Acquire(ctx, n, holdfast.FixedLease(10*time.Second))
				if err != nil {
					return
				}
				grants.Add(1)
				if now := used.Add(int64(n)); now > most.Load() {
					most.Store(now)
				}
				select {
				case <-h.Context().Done():
				case <-time.After(work):
				}
				used.Add(int64(-n))
				_ = h.Unlock() // it is repeated in the background
			})
			if most.Load() > 4 || grants.Load() < 20 {
				t.Errorf("seed %d: %d permits of 4 used, in %d grants", seed, most.Load(), grants.Load())
			}
			time.Sleep(2 * time.Minute)
		})
	}
}

// So it is with counting down.
func TestLatchUnderFaults(t *testing.T) {
	const calls = 3 * 3 * 12
	for seed := range uint64(4) {
		latchWorld(t, calls+1, func(t *testing.T, w *kit.World) {
			hustle(w, seed, func(ctx context.Context, c *holdfast.Client, _ int, _ time.Duration) {
				_ = c.NewLatch("x").CountDown() // it counts in any case
			})
			time.Sleep(time.Minute)
			w.WantReply("1", "GET", "x")
			c, _ := w.Client()
			kit.OK(t, c.NewLatch("x").CountDown())
		})
	}
}
