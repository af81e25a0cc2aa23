package permits

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// counting is either semaphore, as far as taking and giving back go.
type counting struct {
	name string
	// world is one with a semaphore of five permits.
	world func(t *testing.T, f func(t *testing.T, w *kit.World))
	// acquire returns what gives the permits back.
	acquire func(ctx context.Context, c *holdfast.Client, n int) (func() error, error)
}

var bothSemaphores = []counting{
	{
		"permits",
		func(t *testing.T, f func(*testing.T, *kit.World)) { kit.PermitsWorld(t, 5, f) },
		func(ctx context.Context, c *holdfast.Client, n int) (func() error, error) {
			h, err := c.NewPermitSemaphore("x").Acquire(ctx, n)
			if err != nil {
				return nil, err
			}
			return h.Unlock, nil
		},
	},
	{
		"semaphore",
		func(t *testing.T, f func(*testing.T, *kit.World)) { kit.CounterWorld(t, 5, f) },
		func(ctx context.Context, c *holdfast.Client, n int) (func() error, error) {
			s := c.NewUnleasedSemaphore("x")
			return func() error { return s.Release(n) }, s.Acquire(ctx, n)
		},
	},
}

// stream has so many clients take one permit each for a while, again and again,
// until the returned function is called. That returns when they got in, since the
// beginning.
func (k *counting) stream(t *testing.T, w *kit.World, clients int, work time.Duration) (stop func() []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	start := time.Now()
	var mu sync.Mutex
	var in []time.Duration
	var wg sync.WaitGroup
	for range clients {
		c, _ := w.Client()
		wg.Go(func() {
			for {
				back, err := k.acquire(ctx, c, 1)
				if err != nil {
					kit.WantError(t, err, context.Canceled)
					return
				}
				mu.Lock()
				in = append(in, time.Since(start))
				mu.Unlock()
				time.Sleep(work)
				kit.OK(t, back())
			}
		})
		time.Sleep(time.Millisecond)
	}
	return func() []time.Duration {
		cancel()
		wg.Wait()
		return in
	}
}

// One who wants more than there will be for long holds back those who want one for
// ten seconds at a stretch, and then lets them by for as long.
func TestGreedyWaiterLetsOthersBy(t *testing.T) {
	for _, k := range bothSemaphores {
		t.Run(k.name, func(t *testing.T) {
			k.world(t, func(t *testing.T, w *kit.World) {
				a, _ := w.Client()
				back, err := k.acquire(background, a, 1) // it keeps one, so there are never five
				kit.OK(t, err)
				ctx, cancel := context.WithCancel(background)
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, err := k.acquire(ctx, a, 5)
					kit.WantError(t, err, context.Canceled)
				}()
				time.Sleep(time.Second)
				const run = time.Minute
				stop := k.stream(t, w, 2, 100*time.Millisecond)
				time.Sleep(run)
				in := stop()
				var last, longest, let time.Duration
				for _, at := range append(in, run) {
					gap := at - last
					longest, last = max(longest, gap), at
					if gap < time.Second {
						let += gap
					}
				}
				if longest > 10200*time.Millisecond || longest < 9900*time.Millisecond {
					t.Errorf("they were held back for %v at a stretch", longest)
				}
				if let < run/3 {
					t.Errorf("they were let by for %v of %v", let, run)
				}
				cancel()
				<-gone
				kit.OK(t, back())
			})
		})
	}
}

// One who wants all of them gets them in its next turn if it did not in the first,
// because one permit was held for longer than that. A turn is his who is refused
// first, so with others that work for long it may pass by a few times, and it may be
// so late that the first is enough.
func TestBigRequestGetsItsTurnAgain(t *testing.T) {
	for _, k := range bothSemaphores {
		for work, within := range map[time.Duration][2]time.Duration{
			200 * time.Millisecond: {20 * time.Second, 24 * time.Second},
			4 * time.Second:        {0, 70 * time.Second},
		} {
			t.Run(fmt.Sprint(k.name, work), func(t *testing.T) {
				k.world(t, func(t *testing.T, w *kit.World) {
					a, _ := w.Client()
					long, err := k.acquire(background, a, 1)
					kit.OK(t, err)
					stop := k.stream(t, w, 6, work)
					time.AfterFunc(15*time.Second, func() { kit.OK(t, long()) })
					big, _ := w.Client()
					start := time.Now()
					back, err := k.acquire(background, big, 5)
					kit.OK(t, err)
					// Others are held back for the first time when one of them comes back; then
					// for two turns, with the time between them, the last until all are back.
					if took := time.Since(start); took < within[0] || took > within[1] {
						t.Errorf("it waited %v", took)
					}
					kit.OK(t, back())
					stop()
				})
			})
		}
	}
}

// Beside one that can never be let in, another big one gets its turn, too.
func TestGreedyWaiterDoesNotStarveTheNext(t *testing.T) {
	k := bothSemaphores[1]
	k.world(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		ctx, cancel := context.WithCancel(background)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, err := k.acquire(ctx, a, 6)
			kit.WantError(t, err, context.Canceled)
		}()
		time.Sleep(time.Second)
		stop := k.stream(t, w, 6, 200*time.Millisecond)
		big, _ := w.Client()
		start := time.Now()
		back, err := k.acquire(background, big, 5)
		kit.OK(t, err)
		if took := time.Since(start); took > 10*time.Minute { // each 20 s it is its turn or the greedy one's, by chance
			t.Errorf("it waited %v", took)
		}
		kit.OK(t, back())
		stop()
		cancel()
		<-gone
	})
}
