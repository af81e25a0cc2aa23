package held

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestMemorySince(t *testing.T) {
	got := memory{1100, 2050, 15}.since(memory{100, 2000, 5}, 10)
	if want := (memory{100, 5, 1}); got != want {
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

// Every contender holds and waits, loses nothing, and nobody returns early.
func TestHeld(t *testing.T) {
	r := New(t, contenders.Setup{Addrs: []string{redistest.Start(t).Addr()}, Pool: 20, Lease: 30 * time.Second}, time.Minute, t.Output()) // with a long lease: a busy machine shall not lose holds
	for _, c := range contenders.Renewing() {
		holds, err := r.Held(t.Context(), c, 100, 100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if len(holds) != 3 {
			t.Errorf("%s: %d figures", c.Full(), len(holds))
		}
		for _, h := range holds {
			if h.Lost != 0 || h.Holds == 100 && (h.Heap < 200 || h.Window == 0) {
				t.Errorf("%s: %+v", c.Full(), h)
			}
		}
		waits, err := r.Waiting(t.Context(), c, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(waits) != 2 || waits[1].Waiters != 100 || waits[1].Locks != 10 || waits[1].Returned != 0 {
			t.Errorf("%s: %+v", c.Full(), waits)
		}
	}
}
