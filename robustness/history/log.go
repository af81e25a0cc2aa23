package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// Clock gives the moments of a trial. Within a process no two are the same, so they order
// what happens in one instant of a clock that stands still, as under fake time. Use [NewClock].
type Clock struct {
	read func() int64
	last atomic.Int64
}

// NewClock returns a clock that reads nanoseconds. For several processes they must be of one
// clock, such as CLOCK_MONOTONIC of one machine.
func NewClock(read func() int64) *Clock { return &Clock{read: read} }

// Now returns a moment that is later than all before.
func (c *Clock) Now() Moment {
	for {
		last := c.last.Load()
		next := max(last+1, c.read())
		if c.last.CompareAndSwap(last, next) {
			return Moment(next)
		}
	}
}

// Log is the history of one process. Use [NewLog].
type Log struct {
	clock   *Clock
	process int
	out     *json.Encoder // nil: memory alone

	mu     sync.Mutex // guards what follows, and the operations
	ops    []*Op
	failed error // of out
}

// NewLog returns an empty log. It also writes what happens to out as lines of JSON, unless out is
// nil.
func NewLog(clock *Clock, process int, out io.Writer) *Log {
	l := &Log{clock: clock, process: process}
	if out != nil {
		l.out = json.NewEncoder(out)
	}
	return l
}

// Now returns a moment of the log's clock.
func (l *Log) Now() Moment { return l.clock.Now() }

// Begin notes that an operation is about to be invoked, and returns what End is told. The moment is that of the call: on a busy
// machine, notes have waited for each other for 120 ms.
func (l *Log) Begin(o Op) *Op {
	op := &o
	op.Process, op.Invoke, op.Return, op.Outcome = l.process, l.clock.Now(), Never, Open
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
	op.ID = int64(len(l.ops))
	l.write(op)
	return op
}

// End notes that an operation has returned. change, if not nil, sets what is known of it now.
func (l *Log) End(op *Op, outcome Outcome, change func(op *Op)) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	op.Return, op.Outcome = now, outcome
	if change != nil {
		change(op)
	}
	l.write(op)
}

// Mark notes what has no duration.
func (l *Log) Mark(o Op, outcome Outcome) {
	op := l.Begin(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	op.Return, op.Outcome = op.Invoke, outcome
	l.write(op)
}

// Span notes what has begun and ended at moments in the past.
func (l *Log) Span(o Op, from, to Moment, outcome Outcome) {
	op := l.Begin(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	op.Invoke, op.Return, op.Outcome = from, to, outcome
	l.write(op)
}

// write adds a line. l.mu is held.
func (l *Log) write(op *Op) {
	if l.out == nil {
		return
	}
	if err := l.out.Encode(op); err != nil && l.failed == nil {
		l.failed = fmt.Errorf("history: %w", err)
	}
}

// Ops returns what has been noted so far, in the order of invocation, and why something could not be written, if so.
func (l *Log) Ops() ([]Op, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := make([]Op, len(l.ops))
	for i, op := range l.ops {
		ops[i] = *op
	}
	inOrder(ops)
	return ops, l.failed
}

func inOrder(ops []Op) {
	slices.SortFunc(ops, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Invoke, b.Invoke), cmp.Compare(a.Process, b.Process), cmp.Compare(a.ID, b.ID))
	})
}

// Read joins the histories that several processes have written, in the order of invocation. The
// last line of one may be cut off, as it is when the process is killed.
func Read(from ...io.Reader) ([]Op, error) {
	latest := map[Key]Op{}
	for i, r := range from {
		if err := readInto(latest, r); err != nil {
			return nil, fmt.Errorf("history %d: %w", i, err)
		}
	}
	ops := make([]Op, 0, len(latest))
	for _, op := range latest {
		ops = append(ops, op)
	}
	inOrder(ops)
	return ops, nil
}

func readInto(latest map[Key]Op, r io.Reader) error {
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what stands behind the last newline was cut off
		}
		if err != nil {
			return err
		}
		var op Op
		if err := json.Unmarshal(bytes.TrimSpace(line), &op); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		latest[op.Key()] = op
	}
}
