package holdfast

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// instant is a driver whose server says yes to everything, at once: what is left is the
// core's own cost.
type instant struct{ reply any }

func newInstant() instant {
	return instant{time.Now().UnixMilli()}
}

func (d instant) Eval(context.Context, driver.Call) (any, error) { return d.reply, nil }

func (d instant) EvalReplicated(context.Context, driver.Call, int, time.Duration) (any, int, error) {
	return d.reply, 0, nil
}

func (instant) Check() error                                   { return nil }
func (instant) Slotted() bool                                  { return false }
func (instant) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }
func (instant) Listen(func(driver.Event)) driver.Listener      { return noListener{} }

type noListener struct{}

func (noListener) Subscribe(string)   {}
func (noListener) Unsubscribe(string) {}
func (noListener) Close()             {}

// BenchmarkPair takes a free lock and gives it back. A cancellable context is what
// callers mostly have.
func BenchmarkPair(b *testing.B) {
	c, err := New(newInstant())
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
const mostAllocations = 11

func TestAllocationsOfAPair(t *testing.T) {
	c, err := New(newInstant())
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
