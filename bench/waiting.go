package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// waitersALock is how many wait for each lock.
const waitersALock = 10

// waitRun measures what waiters cost while they wait.
type waitRun struct {
	setup    setup
	most     int // waiters
	limit    time.Duration
	id       string
	progress io.Writer
}

// waitRecord is a number of waiters. Their memory is that of one of them: heap beyond
// the caller's stack, and by how much that stack grows.
type waitRecord struct {
	Kind      string `json:"kind"`
	Contender string `json:"contender"`
	Client    string `json:"client"`
	Waiters   int    `json:"waiters"`
	Locks     int    `json:"locks"`
	memory

	// Returned waiters did not wait until the end, though no lock was free.
	Returned int `json:"returned"`
}

// contender has more and more waiters on one contender's locks.
func (r *waitRun) contender(ctx context.Context, c contender) (records []waitRecord, err error) {
	for _, n := range steps(waitersALock, r.most) {
		if _, err := fmt.Fprintf(r.progress, "wait  %-22s %9s waiters\n", c.full(), grouped(n)); err != nil {
			return records, err
		}
		record, err := r.step(ctx, c, n)
		if err != nil {
			return records, err
		}
		records = append(records, record)
	}
	return records, nil
}

// step has n waiters. One session holds the locks, and a new one waits, so that
// nothing is left of the waiters before.
func (r *waitRun) step(ctx context.Context, c contender, n int) (record waitRecord, err error) {
	prefix := fmt.Sprintf("%s:%s:%d", r.id, c.short(), n)
	names := makeNames(prefix, max(1, n/waitersALock))
	keeper, err := openHolder(ctx, c, r.setup)
	if err != nil {
		return record, err
	}
	defer func() { err = errors.Join(err, closeWithin(r.limit, c, keeper)) }()
	held := keeper.holds(len(names))
	defer func() { err = errors.Join(err, giveBackAll(ctx, held, len(names), err)) }()
	if err := takeAll(ctx, held, names, 0); err != nil {
		return record, err
	}
	s, err := openHolder(ctx, c, r.setup)
	if err != nil {
		return record, err
	}
	defer func() { err = errors.Join(err, closeWithin(r.limit, c, s)) }()
	if err := warm(ctx, s, prefix); err != nil {
		return record, err
	}
	record = waitRecord{Kind: "waiting", Contender: c.name, Client: c.client, Waiters: n, Locks: len(names)}
	record.memory, record.Returned, err = r.measure(ctx, s, names, n)
	return record, err
}

// measure compares goroutines that are about to wait with those that wait.
func (r *waitRun) measure(ctx context.Context, s pairer, names []string, n int) (each memory, returned int, err error) {
	w := startWaiters(ctx, s, names, n)
	before := readMemory()
	w.begin()
	failed := awaitQuiet(ctx)
	each = readMemory().since(before, n)
	returned = w.end()
	return each, returned, failed
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
