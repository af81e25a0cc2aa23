package holdfast

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/instant"
)

// BenchmarkPair takes a free lock and gives it back. A cancellable context is what
// callers mostly have.
func BenchmarkPair(b *testing.B) {
	c, err := New(instant.New())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for name, lock := range map[string]Locker{
		"mutex": c.NewMutex("a"), "fair": c.NewFairMutex("a"),
		"read": c.NewRWMutex("a").RLocker(), "write": c.NewRWMutex("a"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h, err := lock.Lock(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Unlock(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// mostAllocations is what a pair of Lock and Unlock of a free mutex allocates: it was measured.
const mostAllocations = 10

func TestAllocationsOfAPair(t *testing.T) {
	c, err := New(instant.New())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lock := c.NewMutex("a")
	n := testing.AllocsPerRun(1000, func() {
		h, err := lock.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
	})
	if n > mostAllocations {
		t.Errorf("%v allocations, want %d at most", n, mostAllocations)
	}
}
