package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// freeForAll is a lock that excludes nobody.
type freeForAll struct{}

func (freeForAll) Name() string { return "free" }

func (freeForAll) Lock(context.Context, ...holdfast.LockOption) (*holdfast.Hold, error) {
	return nil, errors.New("it cannot be had")
}

func (freeForAll) TryLock(context.Context, ...holdfast.TryOption) (*holdfast.Hold, error) {
	return nil, errors.New("it cannot be had")
}

// Who should not be in is seen, unless the lock is one for many.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	for kind, want := range map[Kind]int64{Mutex: 1, Fair: 1, Write: 1, Read: 0} {
		r := &room{}
		w := &worker{room: r, exclusive: kind.exclusive()}
		w.visit(t.Context())
		if got := r.overlaps.Load(); got != 0 || r.inside.Load() != 0 {
			t.Errorf("%s, alone: %d overlaps, %d inside", kind, got, r.inside.Load())
		}
		r.inside.Add(1)
		w.visit(t.Context())
		if got := r.overlaps.Load(); got != want {
			t.Errorf("%s: %d overlaps, want %d", kind, got, want)
		}
	}
}

// A worker whose calls fail counts them, and ends with the context.
func TestWorkerFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := &worker{lock: freeForAll{}, room: &room{}}
	w.pair(ctx)
	w.pair(ctx)
	if w.failures != 2 || w.failure == nil || w.unserved != 0 {
		t.Errorf("%+v", w)
	}
	cancel()
	w.pair(ctx)
	if w.failures != 2 {
		t.Error("a wait that ended with the run has failed")
	}
	w.run(ctx)
	result := &Result{Server: "there"}
	result.add(w)
	var e *exit.Error
	if err := error(result.failure()); !errors.As(err, &e) || e.Code != exit.Failed || !strings.Contains(err.Error(), "2 pairs failed, the first one so: it cannot be had") {
		t.Errorf("%v", err)
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	h := hdrhistogram.New(1, highest, digits)
	if got := buckets(h); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	for _, d := range []time.Duration{15 * time.Microsecond, 40 * time.Microsecond, 41 * time.Microsecond, 3 * time.Millisecond} {
		record(h, d)
	}
	got := buckets(h)
	if len(got) != 8 || got[0] != (Bucket{20 * time.Microsecond, 1}) || got[1] != (Bucket{50 * time.Microsecond, 2}) || got[7].Below != 5*time.Millisecond {
		t.Errorf("%v", got)
	}
	sum := int64(0)
	for _, bucket := range got {
		sum += bucket.Count
	}
	if sum != h.TotalCount() {
		t.Errorf("%d counted of %d", sum, h.TotalCount())
	}
	if all := timesOf(h); all.Max < 3*time.Millisecond || all.Max > 3*time.Millisecond+3*time.Millisecond/1000 || all.P50 < 40*time.Microsecond || all.P50 > all.P99 {
		t.Errorf("%+v", all)
	}
}

// What is longer than a run could be is counted as that.
func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	h := hdrhistogram.New(1, highest, digits)
	record(h, -time.Second)
	record(h, 10*longest)
	if h.TotalCount() != 2 {
		t.Errorf("%d counted", h.TotalCount())
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	r := &Result{
		Server: "there", Kind: Fair, Goroutines: 1200, Locks: 1, Hold: time.Millisecond, Elapsed: 1500 * time.Millisecond, Interrupted: true,
		Pairs: 1000, PerSecond: 666.6, Wait: Times{P50: 1234567, P99: 2 * time.Second, Max: 3 * time.Second, Mean: 999},
		Fewest: 0, Most: 1000, Waiting: 1, Unserved: 1499 * time.Millisecond, Failures: 2,
		Waits: []Bucket{{time.Millisecond, 999}, {2 * time.Millisecond, 0}, {5 * time.Millisecond, 1}},
	}
	var b strings.Builder
	if err := r.Print(&b, 0); err != nil {
		t.Fatal(err)
	}
	const want = `1,200 goroutines for 1 fair mutex, held for 1ms, 1.5 s on there, interrupted

  pairs    1,000, 666 a second
  wait     p50 1.23ms, p99 2s, max 3s, mean 999ns
  unlock   p50 0s, p99 0s, max 0s, mean 0s
  shares   from 0 to 1,000 pairs a goroutine
  waiting  1 goroutine in the end, for 1.5s at most
  failed   2 pairs

  wait below     1ms  999   99.9 %  ########################################
  wait below     2ms    0    0.0 %
  wait below     5ms    1    0.1 %  #
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	r.ThroughRedis = &Result{Server: "there", Kind: Mutex, Goroutines: 2, Locks: 1, WithoutHandOver: true, Pairs: 7, PerSecond: 3500}
	for kind, says := range map[Kind]string{
		Mutex: "  pairs    1,000, 666 a second, handed over inside this process\n           3,500 a second with each through Redis, as between processes\n",
		Read:  "  pairs    1,000, 666 a second, in holds that goroutines of this process share\n           3,500 a second with each through Redis, as between processes\n",
	} {
		b.Reset()
		r.Kind = kind
		if err := r.Print(&b, 0); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{says, "\n\n2 goroutines for 1 mutex, without hand-over, ", "  pairs    7, 3,500 a second, each through Redis\n"} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%s: no %q in\n%s", kind, part, b.String())
			}
		}
	}
	for _, width := range []int{44, 80} {
		b.Reset()
		r.Pairs, r.Waits[0].Count = 123_457, 123_456
		if err := r.Print(&b, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if ansi.StringWidth(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
		if !strings.Contains(b.String(), "123,456") || !strings.Contains(b.String(), " ###") {
			t.Errorf("in %d columns:\n%s", width, b.String())
		}
	}
}

// Of two errors, both are said, with the code of the first.
func TestBoth(t *testing.T) {
	t.Parallel()
	one, other := exit.Because(exit.Failed, "one"), exit.Because(exit.Unavailable, "other")
	for _, c := range []struct {
		first, second *exit.Error
		code          int
		says          string
	}{
		{nil, nil, 0, ""}, {one, nil, exit.Failed, "one"}, {nil, other, exit.Unavailable, "other"}, {one, other, exit.Failed, "one; other"},
	} {
		err := both(c.first, c.second)
		var e *exit.Error
		switch {
		case c.code == 0:
			if err != nil {
				t.Errorf("of nothing: %v", err)
			}
		case !errors.As(err, &e) || e.Code != c.code || err.Error() != c.says:
			t.Errorf("%v, want %s with %d", err, c.says, c.code)
		}
	}
}
