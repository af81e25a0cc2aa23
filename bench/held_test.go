package main

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		low, high int
		want      []int
	}{
		{1, 1, []int{1}}, {1, 100, []int{1, 10, 100}}, {1, 250, []int{1, 10, 100, 250}}, {10, 5, []int{5}},
	} {
		if got := steps(c.low, c.high); !slices.Equal(got, c.want) {
			t.Errorf("%d to %d: %v, want %v", c.low, c.high, got, c.want)
		}
	}
}

func TestShare(t *testing.T) {
	if got := share(time.Second, 3*time.Second, 8*time.Second); got != 0.25 {
		t.Errorf("%v, want 0.25", got)
	}
}

func TestMemorySince(t *testing.T) {
	got := memory{Heap: 1100, Stacks: 2050, Goroutines: 15}.since(memory{Heap: 100, Stacks: 2000, Goroutines: 5}, 10)
	if want := (memory{Heap: 100, Stacks: 5, Goroutines: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What is allocated and kept, and a goroutine's stack, are seen.
func TestReadMemory(t *testing.T) {
	const n, bytes = 1000, 4096
	before := readMemory()
	kept := make([][]byte, n)
	end := make(chan struct{})
	for i := range kept {
		kept[i] = make([]byte, bytes)
		go func() { <-end }()
	}
	each := readMemory().since(before, n)
	close(end)
	if each.Heap < bytes || each.Heap > bytes+1024 || each.Stacks < 1024 || each.Goroutines < 0.99 || each.Goroutines > 1.01 {
		t.Errorf("%+v", each)
	}
	runtime.KeepAlive(kept)
}

func TestForEach(t *testing.T) {
	var calls [100]atomic.Int32
	err := forEach(t.Context(), 10, len(calls), func(i int) error {
		calls[i].Add(1)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for i := range calls {
		want := int32(1)
		if i < 10 {
			want = 0
		}
		if got := calls[i].Load(); got != want {
			t.Errorf("number %d: %d calls, want %d", i, got, want)
		}
	}
	broken := errors.New("broken")
	if err := forEach(t.Context(), 0, 1000, func(i int) error {
		if i == 500 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := forEach(ended, 0, 10, func(int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Every contender holds and waits, loses nothing, and nobody returns early.
func TestHeld(t *testing.T) {
	j := newJob(t, "--quick", "--held")
	m := newMeter(j.addr)
	defer m.close()
	s := j.heldSetup()
	s.lease = 30 * time.Second // a busy machine shall not lose holds
	holding := heldRun{setup: s, most: 100, window: 100 * time.Millisecond, limit: time.Minute, id: "t", meter: m, progress: t.Output()}
	waiting := waitRun{setup: s, most: 100, limit: time.Minute, id: "t", progress: t.Output()}
	for _, c := range renewing() {
		holds, err := holding.contender(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(holds) != 3 {
			t.Errorf("%s: %d figures", c.full(), len(holds))
		}
		for _, h := range holds {
			if h.Lost != 0 || h.Holds == 100 && (h.Heap < 200 || h.Window == 0) {
				t.Errorf("%s: %+v", c.full(), h)
			}
		}
		waits, err := waiting.contender(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(waits) != 2 || waits[1].Waiters != 100 || waits[1].Locks != 10 || waits[1].Returned != 0 {
			t.Errorf("%s: %+v", c.full(), waits)
		}
	}
}

// The mode writes a table and a record of each step.
func TestHeldMode(t *testing.T) {
	kinds, out := recordsOf(t, "--held", "--quick", "--holds", "10", "--waiters", "10", "--lease", "600ms", "--timeout", "500ms", "--only", "holdfast on go")
	if want := map[string]int{"run": 1, "held": 2, "waiting": 1}; !maps.Equal(kinds, want) {
		t.Errorf("%v, want %v; output:\n%s", kinds, want, out)
	}
}
