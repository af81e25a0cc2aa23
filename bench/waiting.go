package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// waitersALock is how many wait for each lock.
const waitersALock = 10

// waitFigures are of a number of waiters. Their memory is that of one of them: heap beyond
// the caller's stack, and by how much that stack grows.
type waitFigures struct {
	contender      contender
	waiters, locks int
	memory

	// returned waiters did not wait until the end, though no lock was free.
	returned int
}

// waiting has more and more waiters on one contender's locks.
func (r *heldRun) waiting(ctx context.Context, c contender, most int) (all []waitFigures, err error) {
	for _, n := range steps(waitersALock, most) {
		if _, err := fmt.Fprintf(r.progress, "wait  %-22s %9d waiters\n", c.full(), n); err != nil {
			return all, err
		}
		f, err := r.wait(ctx, c, n)
		if err != nil {
			return all, err
		}
		all = append(all, f)
	}
	return all, nil
}

// wait has n waiters. One session holds the locks, and a new one waits, so that
// nothing is left of the waiters before.
func (r *heldRun) wait(ctx context.Context, c contender, n int) (f waitFigures, err error) {
	prefix := fmt.Sprintf("%s:%s:%d", r.id, c.short(), n)
	names := makeNames(prefix, max(1, n/waitersALock))
	keeper, err := openHolder(ctx, c, r.setup)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, closeWithin(r.limit, c, keeper)) }()
	held := keeper.holds(len(names))
	defer func() { err = errors.Join(err, giveBackAll(ctx, held, len(names), err)) }()
	if err := takeAll(ctx, held, names, 0); err != nil {
		return f, err
	}
	s, err := openHolder(ctx, c, r.setup)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, closeWithin(r.limit, c, s)) }()
	if err := warm(ctx, s, prefix); err != nil {
		return f, err
	}
	f = waitFigures{contender: c, waiters: n, locks: len(names)}
	w := startWaiters(ctx, s, names, n)
	before := readMemory() // of goroutines that are about to wait
	w.begin()
	failed := awaitQuiet(ctx)
	f.memory = readMemory().since(before, n)
	f.returned = w.end()
	return f, failed
}

// waiters are goroutines that call Lock and are refused. They end with end.
type waiters struct {
	gate     chan struct{}
	cancel   context.CancelFunc
	group    sync.WaitGroup
	returned atomic.Int64
}

// startWaiters starts goroutines, which do nothing until begin.
func startWaiters(ctx context.Context, s pairer, names []string, n int) *waiters {
	w := &waiters{gate: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	for i := range n {
		pair := s.pair(names[i%len(names)])
		w.group.Go(func() {
			<-w.gate
			_ = pair(ctx, func() {}) // it fails with the context, or it is counted
			w.returned.Add(1)
		})
	}
	return w
}

func (w *waiters) begin() { close(w.gate) }

// end has the waiters give up, waits for them, and returns how many had not waited.
func (w *waiters) end() int {
	returned := int(w.returned.Load())
	w.cancel()
	w.group.Wait()
	return returned
}
