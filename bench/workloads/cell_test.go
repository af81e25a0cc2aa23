package workloads

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

// fakeSession is a contender of the tests' own.
func fakeSession(p contenders.Pair) *contenders.Session {
	return &contenders.Session{Pair: func(string) contenders.Pair { return p }}
}

var crowd = Workload{ID: "crowd", Title: "4 on one", Goroutines: 4, Shared: true}

// fake runs a cell under fake time, with one pair for all of its goroutines.
func fake(t *testing.T, w Workload, p contenders.Pair) (f Figures) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		c := Cell{Order: Order{w, "x", 10 * time.Second, time.Second}, Session: fakeSession(p)}
		f = c.Run(t.Context())
		time.Sleep(time.Hour) // goroutines that were given up end as well
	})
	return f
}

func work(ctx context.Context, d time.Duration) error {
	call.Sleep(ctx, d)
	return ctx.Err()
}

func TestCellCounts(t *testing.T) {
	f := fake(t, Workload{Goroutines: 2}, func(ctx context.Context, critical func()) error {
		critical()
		return work(ctx, 300*time.Millisecond)
	})
	if f.Pairs != 2*33 || f.Fewest != 33 || f.Most != 33 || f.PerSecond != 6.6 {
		t.Errorf("%+v", f)
	}
	if f.P50 != 300*time.Millisecond || f.P99 != f.P50 || f.Max != f.P50 || f.Remark() != "" {
		t.Errorf("%+v: %s", f, f.Remark())
	}
}

// Of those who take turns, nobody goes in twice before another one has.
func TestCellTakesTurns(t *testing.T) {
	token := sync.OnceValue(func() chan struct{} { // in the bubble, or who waits for it is awake to fake time
		free := make(chan struct{}, 1)
		free <- struct{}{}
		return free
	})
	lock := func(ctx context.Context, critical func()) error {
		select {
		case <-token():
			critical()
			token() <- struct{}{} // and would take it again at once
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w := Workload{Goroutines: 2, Shared: true, Alternate: true, Hold: 100 * time.Millisecond}
	if f := fake(t, w, lock); f.Pairs < 90 || f.Most-f.Fewest > 1 || f.HandOvers != f.Completed-1 || f.Remark() != "" {
		t.Errorf("%+v: %s", f, f.Remark())
	}
}

// A lock that excludes nobody is found out.
func TestCellSeesOverlap(t *testing.T) {
	f := fake(t, crowd, func(ctx context.Context, critical func()) error {
		critical()
		return work(ctx, time.Millisecond)
	})
	if f.Overlaps == 0 {
		t.Errorf("no overlap seen: %+v", f)
	}
}

func TestCellStandsStill(t *testing.T) {
	var mu sync.Mutex
	left := 5
	f := fake(t, crowd, func(ctx context.Context, _ func()) error {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			mu.Unlock()
			defer mu.Lock()
			return work(ctx, time.Hour)
		}
		left--
		return nil
	})
	if !f.StoodStill || f.Pairs != 5 || f.Stuck != 0 || f.Errors != 0 {
		t.Errorf("%+v", f)
	}
}

// One that starves among others is cut short, and the others go on.
func TestCellCutsOneShort(t *testing.T) {
	var first sync.Once
	f := fake(t, crowd, func(ctx context.Context, _ func()) error {
		wait := 100 * time.Millisecond
		first.Do(func() { wait = time.Hour })
		return work(ctx, wait)
	})
	if f.StoodStill || f.Timeouts != 1 || f.Pairs < 3*99 || f.Errors != 0 {
		t.Errorf("%+v", f)
	}
}

// A library that ignores its context does not hang the run.
func TestCellGivesUpWhoIgnoresItsContext(t *testing.T) {
	f := fake(t, crowd, func(context.Context, func()) error {
		time.Sleep(time.Minute)
		return nil
	})
	if !f.StoodStill || f.Stuck != 4 || f.Measured() {
		t.Errorf("%+v", f)
	}
}

func TestCellCountsErrors(t *testing.T) {
	f := fake(t, Workload{Goroutines: 1}, func(ctx context.Context, _ func()) error {
		if err := work(ctx, 99*time.Millisecond); err != nil {
			return err
		}
		return errors.New("no luck")
	})
	// Nothing but errors is a standstill, too.
	if !f.StoodStill || f.Errors == 0 || f.Error != "no luck" {
		t.Errorf("%+v", f)
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		of      []time.Duration
		p, want int
	}{{hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred[:1], 50, 1}, {hundred[:3], 50, 2}, {nil, 50, 0}} {
		if got := percentile(c.of, c.p); got != time.Duration(c.want) {
			t.Errorf("percentile %d of %d: %d, want %d", c.p, len(c.of), got, c.want)
		}
	}
}
