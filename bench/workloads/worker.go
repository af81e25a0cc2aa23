package workloads

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/places"
	"github.com/holdfast-go/holdfast/internal/call"
)

// A worker is one goroutine of a cell.
type worker struct {
	pair contenders.Pair
	// Of a read-write lock: that pair reads, and one of so many is this one.
	write      contenders.Pair
	writeEvery int

	visitor   places.Visitor
	from      time.Time // what happens earlier does not count
	until     time.Time // no pair begins later
	alternate bool      // between two pairs it lets somebody else go in

	pairs atomic.Int64 // completed between from and until
	last  atomic.Int64 // when the last one was completed, in ns since the epoch

	mu     sync.Mutex // guards what follows
	cancel context.CancelFunc
	began  time.Time // of the pair under way; zero if there is none
	cut    bool      // it was cancelled for taking too long
}

// tally is what a worker has to say in the end. Times are of what was begun in time.
type tally struct {
	Pairs     int             `json:"pairs"`
	Took      []time.Duration `json:"took"`       // by each pair
	Waited    []time.Duration `json:"waited"`     // from the call of lock to being inside
	Unserved  time.Duration   `json:"unserved"`   // the longest wait that came to nothing
	HandOvers []time.Duration `json:"hand_overs"` // to this one
	Timeouts  int             `json:"timeouts"`   // pairs that were cut short
	Errors    int             `json:"errors"`     // pairs that failed otherwise
	Failure   string          `json:"failure"`    // the first of these
}

// failPause keeps a worker whose pairs fail at once from spinning.
const failPause = time.Millisecond

// run does one pair after another.
func (w *worker) run(cell context.Context) (t tally) {
	ctx := w.arm(cell)
	defer w.disarm()
	for n := 1; cell.Err() == nil; n++ {
		start := time.Now()
		if !start.Before(w.until) {
			break
		}
		w.begin(start)
		w.visitor.Wait()
		err := w.once(ctx, n)
		w.visitor.GiveUp()
		end := time.Now()
		cut := w.end()
		switch {
		case err == nil:
			w.note(&t, start, end)
			w.letOthers(cell)
		case cell.Err() != nil: // the cell has been ended
			t.Unserved = max(t.Unserved, end.Sub(start))
		case cut:
			t.Unserved = max(t.Unserved, end.Sub(start))
			t.Timeouts++
		default:
			t.fail(err)
			call.Sleep(cell, failPause)
		}
		if cut {
			w.disarm()
			ctx = w.arm(cell) //nolint:fatcontext // derived from the cell's, not from the one before
		}
	}
	t.Pairs = int(w.pairs.Load())
	t.HandOvers = w.visitor.HandOvers
	return t
}

// once does the pair of that number.
func (w *worker) once(ctx context.Context, n int) error {
	switch {
	case w.writeEvery == 0:
		return w.pair(ctx, w.visitor.Write)
	case n%w.writeEvery == 0:
		return w.write(ctx, w.visitor.Write)
	}
	return w.pair(ctx, w.visitor.Read)
}

// alternatePause is how often one who lets others go first looks whether they have.
const alternatePause = 100 * time.Microsecond

// letOthers waits until somebody else has got in.
func (w *worker) letOthers(cell context.Context) {
	for w.alternate && !w.visitor.OthersTurn() && cell.Err() == nil && time.Now().Before(w.until) {
		call.Sleep(cell, alternatePause)
	}
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
	if end.Before(w.from) {
		w.visitor.HandOvers = w.visitor.HandOvers[:0]
		return
	}
	t.Took = append(t.Took, end.Sub(start))
	if w.visitor.Shared {
		t.Waited = append(t.Waited, w.visitor.EnteredAt.Sub(start))
	}
	if end.Before(w.until) {
		w.pairs.Add(1)
	}
}

func (t *tally) fail(err error) {
	t.Errors++
	if t.Failure == "" {
		t.Failure = err.Error()
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
