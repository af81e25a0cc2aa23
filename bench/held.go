package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// cpuFrom is the least number of holds whose renewals take so much of a core that
// it can be told from the rest of what the process does.
const cpuFrom = 1000

// heldRun measures what locks cost while they are held, and while they are waited for.
type heldRun struct {
	setup    setup
	limit    time.Duration // of a session's end
	id       string        // in front of every key
	server   *place
	progress io.Writer
}

// heldFigures are of a number of holds. Their memory is that of one of them.
type heldFigures struct {
	contender contender
	holds     int
	memory

	// Shares of one core, over all holds and a window of so long; no window if they
	// were not measured.
	cpu, redisCPU float64
	window        time.Duration
	// lost holds have ended before they were given back.
	lost int
}

func newHeldRun(t testing.TB, s setup, limit time.Duration, progress io.Writer) *heldRun {
	t.Helper()
	return &heldRun{setup: s, limit: limit, id: newID(), server: openPlace(t, "the server", s.Addrs...), progress: progress}
}

// held has one contender hold more and more locks. Its renewals are measured for so long.
func (r *heldRun) held(ctx context.Context, c contender, most int, window time.Duration) (all []heldFigures, err error) {
	prefix := r.id + ":" + c.short()
	names := makeNames(prefix, most)
	s, err := openHolder(ctx, c, r.setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeWithin(r.limit, c, s)) }()
	if err := warm(ctx, s, prefix); err != nil {
		return nil, err
	}
	held := s.holds(len(names))
	defer func() { err = errors.Join(err, giveBackAll(ctx, held, len(names), err)) }()
	before := readMemory()
	taken := 0
	for _, n := range steps(1, most) {
		if err := takeAll(ctx, held, names[:n], taken); err != nil {
			return all, err
		}
		taken = n
		if _, err := fmt.Fprintf(r.progress, "held  %-22s %9d holds\n", c.full(), n); err != nil {
			return all, err
		}
		if err := awaitQuiet(ctx); err != nil {
			return all, err
		}
		f := heldFigures{contender: c, holds: n, memory: readMemory().since(before, n)}
		if n >= cpuFrom || n == most {
			f.window = window
			if f.cpu, f.redisCPU, err = r.shares(ctx, window); err != nil {
				return all, err
			}
		}
		f.lost = held.lost()
		all = append(all, f)
	}
	return all, nil
}

// shares are how much of a core this process and the server need while nothing
// happens but renewals.
func (r *heldRun) shares(ctx context.Context, window time.Duration) (own, server float64, err error) {
	s, err := r.server.spentIn(ctx, window)
	if err != nil {
		return 0, 0, err
	}
	return share(s.own, s.passed), share(s.total().cpu, s.passed), nil
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
	heap       float64 // bytes of live objects
	stacks     float64 // bytes of goroutines
	goroutines float64
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
	return memory{heap: value(0), stacks: value(1), goroutines: value(2)}
}

// since is what one of n has added to what there was before.
func (m memory) since(before memory, n int) memory {
	each := func(now, then float64) float64 { return (now - then) / float64(n) }
	return memory{each(m.heap, before.heap), each(m.stacks, before.stacks), each(m.goroutines, before.goroutines)}
}
