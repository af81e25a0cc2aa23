package servers

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

var handOverMany = flag.Int64("handover.many", 25_000, "how many hand-overs TestManyHandOvers makes on each client")

// Two processes with 32 goroutines each want one lock of a real server. Connections are cut, and
// now and then the server is silent for longer than the lease, so that holds are lost. No two
// that may be trusted are ever inside together, and all goes on after each fault.
func TestManyHandOvers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for p, proxy := range kit.ThroughProxy(t, s) {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			var handed, lost atomic.Int64
			hooks := holdfast.WithHooks(holdfast.Hooks{
				OnAcquire: func(_ context.Context, e holdfast.Event) {
					if e.HandedOver {
						handed.Add(1)
					}
				},
				OnLost: func(context.Context, holdfast.Event) { lost.Add(1) },
			})
			var inside atomic.Pointer[holdfast.Hold]
			var all sync.WaitGroup
			ctx, cancel := context.WithCancel(background)
			var clients []*holdfast.Client
			for range 2 {
				c := p.Client(t, hooks, holdfast.WithLease(time.Second), holdfast.WithTimeout(time.Second))
				clients = append(clients, c)
				for range 32 {
					all.Go(func() { passOn(t, ctx, c.NewMutex("many:"+p.Name), &inside) })
				}
			}
			for handed.Load() < *handOverMany && ctx.Err() == nil {
				before := handed.Load()
				time.Sleep(rand.N(400 * time.Millisecond)) // faults come at any time
				switch rand.N(8) {
				case 0:
					proxy.BlackHole(redistest.Both, true)
					time.Sleep(1500 * time.Millisecond) // longer than a lease
					proxy.BlackHole(redistest.Both, false)
					proxy.Cut()
				case 1, 2:
					proxy.Cut()
				}
				kit.WaitFor(t, "more hand-overs", func() bool { return handed.Load() > before })
			}
			cancel()
			all.Wait()
			for _, c := range clients { // or Close, which has a second, may come right after a fault
				for {
					if h, err := c.NewMutex("calm:" + p.Name).Lock(background); err == nil && h.Unlock() == nil {
						break
					}
				}
			}
			t.Logf("%d hand-overs, %d holds lost", handed.Load(), lost.Load())
		})
	}
}

// passOn takes the lock again and again, and fails if another hold is inside that may be
// trusted.
func passOn(t *testing.T, ctx context.Context, l *holdfast.Mutex, inside *atomic.Pointer[holdfast.Hold]) {
	for ctx.Err() == nil {
		h, err := l.Lock(ctx)
		if err != nil {
			continue // an outage, or the end
		}
		if other := inside.Swap(h); other != nil && h.Context().Err() == nil && other.Context().Err() == nil && time.Now().Before(other.Deadline()) {
			t.Errorf("two holds are inside, until %v and %v", other.Deadline(), h.Deadline())
			return
		}
		work := time.Duration(0)
		switch n := rand.N(50_000); {
		case n == 0:
			work = 2 * time.Second // two leases: it is renewed, or lost
		case n < 50:
			work = rand.N(3 * time.Millisecond)
		}
		if work > 0 {
			select {
			case <-h.Context().Done():
			case <-time.After(work):
			}
		}
		inside.CompareAndSwap(h, nil)
		_ = h.Unlock() // a loss is told, and counted
	}
}
