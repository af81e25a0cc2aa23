package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A worker is one goroutine of a cell.
type worker struct {
	pair  pair
	inner *room
	until time.Time // no pair begins later

	pairs atomic.Int64 // completed before until
	last  atomic.Int64 // when the last one was completed, in ns since the epoch

	mu     sync.Mutex // guards what follows
	cancel context.CancelFunc
	began  time.Time // of the pair under way; zero if there is none
	cut    bool      // it was cancelled for taking too long
}

// tally is what a worker has to say in the end.
type tally struct {
	pairs    int
	took     []time.Duration // by each pair that was begun in time
	timeouts int             // pairs that were cut short
	errors   int             // pairs that failed otherwise
	failure  error           // the first of these
}

// failPause keeps a worker whose pairs fail at once from spinning.
const failPause = time.Millisecond

// run does one pair after another.
func (w *worker) run(cell context.Context) (t tally) {
	critical := w.inner.visit
	ctx := w.arm(cell)
	defer w.disarm()
	for cell.Err() == nil {
		start := time.Now()
		if !start.Before(w.until) {
			break
		}
		w.begin(start)
		err := w.pair(ctx, critical)
		end := time.Now()
		cut := w.end()
		switch {
		case err == nil:
			w.note(&t, start, end)
		case cell.Err() != nil: // the cell has been ended
		case cut:
			t.timeouts++
		default:
			t.fail(err)
			pause(cell, failPause)
		}
		if cut {
			w.disarm()
			ctx = w.arm(cell) //nolint:fatcontext // derived from the cell's, not from the one before
		}
	}
	t.pairs = int(w.pairs.Load())
	return t
}

// arm makes the context that the next pairs run under.
func (w *worker) arm(cell context.Context) (ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, w.cancel = context.WithCancel(cell)
	return ctx
}

func (w *worker) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel()
}

// note takes down a pair that was completed.
func (w *worker) note(t *tally, start, end time.Time) {
	w.last.Store(end.UnixNano())
	t.took = append(t.took, end.Sub(start))
	if end.Before(w.until) {
		w.pairs.Add(1)
	}
}

func (t *tally) fail(err error) {
	t.errors++
	if t.failure == nil {
		t.failure = err
	}
}

func (w *worker) begin(start time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began, w.cut = start, false
}

// end reports whether the pair was cut short.
func (w *worker) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Time{}
	return w.cut
}

// cutIfOlder ends the pair under way if it began before that time.
func (w *worker) cutIfOlder(than time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.began.IsZero() && w.began.Before(than) && !w.cut {
		w.cut = true
		w.cancel()
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// A room is what a lock protects. It counts the visits during which somebody
// else was in it.
type room struct {
	shared   bool
	inside   atomic.Int32
	overlaps atomic.Int64
}

func (r *room) visit() {
	if r.inside.Add(1) != 1 {
		r.overlaps.Add(1)
	}
	if r.shared {
		runtime.Gosched() // gives whoever should not be let in the time to come in
	}
	r.inside.Add(-1)
}
