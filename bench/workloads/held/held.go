package held

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// CPUFrom is the least number of holds whose renewals take so much of a core that
// it can be told from the rest of what the process does.
const CPUFrom = 1000

// Run measures what locks cost while they are held, and while they are waited for.
type Run struct {
	setup    contenders.Setup
	limit    time.Duration // of a session's end
	ID       string        // in front of every key
	server   *places.Place
	progress io.Writer
}

// Holds are of a number of holds. Their memory is that of one of them.
type Holds struct {
	Contender contenders.Contender
	Holds     int
	memory

	// Shares of one core, over all holds and a window of so long; no window if they
	// were not measured.
	CPU, RedisCPU float64
	Window        time.Duration
	// Lost holds have ended before they were given back.
	Lost int
}

// New returns a run at the place of the setup.
func New(tb testing.TB, s contenders.Setup, limit time.Duration, progress io.Writer) *Run {
	tb.Helper()
	return &Run{setup: s, limit: limit, ID: workloads.NewID(), server: places.Open(tb, "the server", s.Addrs...), progress: progress}
}

// Held has one contender hold more and more locks. Its renewals are measured for so long.
func (r *Run) Held(ctx context.Context, c contenders.Contender, most int, window time.Duration) (all []Holds, err error) {
	prefix := r.ID + ":" + c.Short()
	names := MakeNames(prefix, most)
	s, err := c.Open(ctx, r.setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.CloseWithin(r.limit, s)) }()
	if err := Warm(ctx, s, prefix); err != nil {
		return nil, err
	}
	held := s.Holds(len(names))
	defer func() { err = errors.Join(err, GiveBackAll(ctx, held, len(names), err)) }()
	before := readMemory()
	taken := 0
	for _, n := range steps(1, most) {
		if err := TakeAll(ctx, held, names[:n], taken); err != nil {
			return all, err
		}
		taken = n
		if _, err := fmt.Fprintf(r.progress, "held  %-22s %9d holds\n", c.Full(), n); err != nil {
			return all, err
		}
		if err := places.AwaitQuiet(ctx); err != nil {
			return all, err
		}
		f := Holds{Contender: c, Holds: n, memory: readMemory().since(before, n)}
		if n >= CPUFrom || n == most {
			f.Window = window
			spent, err := r.server.SpentIn(ctx, window) // while nothing happens but renewals
			if err != nil {
				return all, err
			}
			f.CPU, f.RedisCPU = places.Share(spent.Own, spent.Passed), places.Share(spent.Total().CPU, spent.Passed)
		}
		f.Lost = held.Lost()
		all = append(all, f)
	}
	return all, nil
}

// steps are low, ten times as many, and so on, up to high.
func steps(low, high int) (all []int) {
	for n := low; n < high; n *= 10 {
		all = append(all, n)
	}
	return append(all, high)
}

// memory is what this process uses.
type memory struct {
	Heap       float64 // bytes of live objects
	Stacks     float64 // bytes of goroutines
	Goroutines float64
}

// collections are as many as it takes until nothing changes any more: the second one
// empties pools, and each one halves stacks of which little is used.
const collections = 6

// readMemory collects the garbage first.
func readMemory() memory {
	for range collections {
		runtime.GC()
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	value := func(i int) float64 { return float64(samples[i].Value.Uint64()) }
	return memory{Heap: value(0), Stacks: value(1), Goroutines: value(2)}
}

// since is what one of n has added to what there was before.
func (m memory) since(before memory, n int) memory {
	each := func(now, then float64) float64 { return (now - then) / float64(n) }
	return memory{each(m.Heap, before.Heap), each(m.Stacks, before.Stacks), each(m.Goroutines, before.Goroutines)}
}
