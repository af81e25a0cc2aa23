package holdfast

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

type nilDriver struct{}

func (nilDriver) Eval(_ context.Context, c driver.Call) (any, error) {
	return []any{int64(1), int64(0), int64(1)}, nil
}

func (d nilDriver) EvalReplicated(ctx context.Context, c driver.Call, n int, _ time.Duration) (any, int, error) {
	reply, err := d.Eval(ctx, c)
	return reply, n, err
}
func (nilDriver) Slotted() bool                                  { return false }
func (nilDriver) PublishCommand(context.Context) (string, error) { return "PUBLISH", nil }
func (nilDriver) Listen(func(driver.Event)) driver.Listener      { return nilListener{} }

type nilListener struct{}

func (nilListener) Subscribe(string)   {}
func (nilListener) Unsubscribe(string) {}
func (nilListener) Close()             {}

// The watchdog finds an entry lost under its lock, and says so after it. If an
// Unlock and the next Lock of that owner come in between, the news is not of the
// next hold.
func TestLateNewsOfALossDoesNotHitTheNextHold(t *testing.T) {
	c, err := New(nilDriver{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := WithOwner(context.Background(), c.NewOwner())
	h1, err := c.NewMutex("x").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	state := h1.held.(*single).owned
	state.ref() // a call of this owner under way keeps its state
	defer state.unref()
	// The watchdog: answered() or collect() has just done finish(e, lost).
	entry := state.entry
	c.watchdog.Remove(entry)
	if err := h1.Unlock(); !errors.Is(err, ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	h2, err := c.NewMutex("x").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if h2.held.(*single).owned != state {
		t.Fatal("another state")
	}
	lost(entry, watchdog.NotHeld) // the watchdog: config.Lost(e.Value)
	if h2.Context().Err() != nil {
		t.Errorf("the next hold: %v", context.Cause(h2.Context()))
	}
	_ = h2.Unlock()
}

// A hold with a fixed lease that is dropped, as throttles do, leaves nothing here: no
// state, no goroutine, no timer.
func TestNothingRemainsOfADroppedHold(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c, err := New(nilDriver{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range 1000 {
			if _, err := c.NewMutex(strconv.Itoa(i)).TryLock(context.Background(), FixedLease(5*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(slices.Collect(c.states.each())); n > 0 {
			t.Errorf("%d of 1000 are kept", n)
		}
	})
}

// Redis says that a lock was taken to whoever gives it back, which may be another call than the Unlock that waits for
// that. The owner's next hold may begin before that one looks.
func TestALossIsKeptForTheUnlockThatWaits(t *testing.T) {
	c, err := New(nilDriver{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := c.NewMutex("x").Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s := h.held.(*single).owned
	left, err := h.held.(*single).leave()
	if err != nil {
		t.Fatal(err)
	}
	defer s.unref()
	s.vanished()
	if _, _, err := s.oneMoreCount(); err != nil {
		t.Errorf("the next hold: %v", err)
	}
	s.mayHave(1)
	if has, err := s.awaitSurplus(context.Background(), left.run); has || err != nil {
		t.Errorf("the Unlock waits for what the next hold leaves: %v, %v", has, err)
	}
	s.vanished() // the next hold is taken, too
	if _, _, err := s.oneMoreCount(); err != nil {
		t.Errorf("the hold after it: %v", err)
	}
	if err := s.lostBefore(left); !errors.Is(err, ErrLost) {
		t.Errorf("the Unlock that waits: %v", err)
	}
}
