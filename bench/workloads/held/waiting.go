package held

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
)

// WaitersALock is how many wait for each lock.
const WaitersALock = 10

// Waits are of a number of waiters. Their memory is that of one of them: heap beyond
// the caller's stack, and by how much that stack grows.
type Waits struct {
	Contender      contenders.Contender
	Waiters, Locks int
	memory

	// Returned waiters did not wait until the end, though no lock was free.
	Returned int
}

// Waiting has more and more waiters on one contender's locks.
func (r *Run) Waiting(ctx context.Context, c contenders.Contender, most int) (all []Waits, err error) {
	for _, n := range steps(WaitersALock, most) {
		if _, err := fmt.Fprintf(r.progress, "wait  %-22s %9d waiters\n", c.Full(), n); err != nil {
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
func (r *Run) wait(ctx context.Context, c contenders.Contender, n int) (f Waits, err error) {
	prefix := fmt.Sprintf("%s:%s:%d", r.ID, c.Short(), n)
	names := MakeNames(prefix, max(1, n/WaitersALock))
	keeper, err := c.Open(ctx, r.setup)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.CloseWithin(r.limit, keeper)) }()
	held := keeper.Holds(len(names))
	defer func() { err = errors.Join(err, GiveBackAll(ctx, held, len(names), err)) }()
	if err := TakeAll(ctx, held, names, 0); err != nil {
		return f, err
	}
	s, err := c.Open(ctx, r.setup)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.CloseWithin(r.limit, s)) }()
	if err := Warm(ctx, s, prefix); err != nil {
		return f, err
	}
	f = Waits{Contender: c, Waiters: n, Locks: len(names)}
	w := startWaiters(ctx, s, names, n)
	before := readMemory() // of goroutines that are about to wait
	w.begin()
	failed := places.AwaitQuiet(ctx)
	f.memory = readMemory().since(before, n)
	f.Returned = w.end()
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
func startWaiters(ctx context.Context, s *contenders.Session, names []string, n int) *waiters {
	w := &waiters{gate: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	for i := range n {
		pair := s.Pair(names[i%len(names)])
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
