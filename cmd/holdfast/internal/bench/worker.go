package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/holdfast-go/holdfast"
)

// A room is what a lock protects. It counts the visits during which somebody else was
// in it.
type room struct {
	inside   atomic.Int32
	overlaps atomic.Int64
}

// failPause keeps a worker whose calls fail at once from spinning.
const failPause = 10 * time.Millisecond

// A worker is a goroutine that locks and unlocks.
type worker struct {
	lock      holdfast.Locker
	room      *room
	exclusive bool
	hold      time.Duration
	shard     *shard

	pairs    int64
	unserved time.Duration // the wait that came to nothing, because the time was up
	failures int64
	failure  error // the first
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.pair(ctx)
	}
}

// pair does one pair. Who still waits when the time is up has not failed.
func (w *worker) pair(ctx context.Context) {
	asked := time.Now()
	hold, err := w.lock.Lock(ctx)
	got := time.Now()
	switch {
	case err != nil && ctx.Err() != nil:
		w.unserved = got.Sub(asked)
		return
	case err != nil:
		w.fail(ctx, err)
		return
	}
	w.visit(ctx)
	left := time.Now()
	if err := hold.Unlock(); err != nil {
		w.fail(ctx, err)
		return
	}
	w.pairs++
	w.shard.note(got.Sub(asked), time.Since(left))
}

func (w *worker) visit(ctx context.Context) {
	if w.room.inside.Add(1) != 1 && w.exclusive {
		w.room.overlaps.Add(1)
	}
	pause(ctx, w.hold)
	w.room.inside.Add(-1)
}

func (w *worker) fail(ctx context.Context, err error) {
	w.failures++
	if w.failure == nil {
		w.failure = err
	}
	pause(ctx, failPause)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// shards is how many histograms the workers share: one would make them take turns, and
// one for each would need too much memory.
const shards = 16

// The times that a histogram tells apart: to three digits, up to a day.
const (
	digits  = 3
	highest = int64(longest)
)

// A shard counts the pairs of some workers.
type shard struct {
	mu     sync.Mutex // guards what follows
	pairs  int64
	wait   *hdrhistogram.Histogram
	unlock *hdrhistogram.Histogram
}

func newShards() []shard {
	all := make([]shard, shards)
	for i := range all {
		all[i].wait, all[i].unlock = hdrhistogram.New(1, highest, digits), hdrhistogram.New(1, highest, digits)
	}
	return all
}

// note counts a pair.
func (s *shard) note(wait, unlock time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pairs++
	record(s.wait, wait)
	record(s.unlock, unlock)
}

// record counts a time. Nothing takes longer than a run, so there is room for it.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(1, d.Nanoseconds()), highest))
}

// pairs are all so far.
func (r *run) pairs() (sum int64) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		sum += s.pairs
		s.mu.Unlock()
	}
	return sum
}
