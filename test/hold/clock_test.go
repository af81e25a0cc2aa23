package hold

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What it costs when the clocks of a client and of its servers are not the same.

// heldUp makes a client whose clock is a minute ahead, and whose next acquire
// reaches the server 51 s after it was sent, when that still finds it in time.
func heldUp(w *kit.World) (*holdfast.Client, *memdriver.Driver) {
	w.Server.SetClock(-time.Minute)
	c, d := w.Client()
	kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 51 * time.Second})
	return c, d
}

// wantGone watches for two minutes, in which something is to stand in Redis that
// nobody holds, and checks that it is not there for long.
func wantGone(w *kit.World, within time.Duration) {
	w.T.Helper()
	const step = 100 * time.Millisecond
	var stood time.Duration
	for range 2 * time.Minute / step {
		time.Sleep(step)
		if len(w.Kind.Stands(w.Ask, "x")) > 0 {
			stood += step
		}
	}
	if stood == 0 {
		w.T.Error("the acquire that was held up never came")
	}
	if stood > within {
		w.T.Errorf("for %v, the lock was held by nobody", stood)
	}
	w.WantNothing()
}

// shortly is how long a lock may stand that nobody holds after a send whose limit
// was far off: until the next look.
const shortly = 3100 * time.Millisecond

// The first call of a client whose clock is ahead is held up; the call has failed
// long before it comes.
func TestFirstCallHeldUp(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := heldUp(w)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		wantGone(w, shortly)
	})
}

// The same, and the first releases of the clean-up are lost, so that they, too,
// might come until then.
func TestFirstCallHeldUpAndItsCleanUp(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := heldUp(w)
		var acquires, releases atomic.Int32
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			switch {
			case call.Script.Name() == "acquire" && acquires.Add(1) == 1:
				return memdriver.Fault{DelayRequest: 51 * time.Second}
			case call.Script.Name() == "release" && releases.Add(1) <= 4:
				return memdriver.Fault{LoseRequest: true}
			}
			return memdriver.Fault{}
		})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		wantGone(w, shortly)
	})
}

// The same with permits: those that have a lease, and those that have none.
func TestFirstPermitsHeldUp(t *testing.T) {
	for name, acquire := range map[string]func(ctx context.Context, c *holdfast.Client) error{
		"permits": func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.NewPermitSemaphore("x").Acquire(ctx, 2)
			return err
		},
		"counter": func(ctx context.Context, c *holdfast.Client) error {
			return c.NewUnleasedSemaphore("x").Acquire(ctx, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
				c, _ := heldUp(w)
				ctx, cancel := context.WithTimeout(background, time.Second)
				defer cancel()
				kit.WantError(t, acquire(ctx, c), context.DeadlineExceeded)
				time.Sleep(51*time.Second + shortly)
				w.WantReply("3", "GET", "x")
			})
		})
	}
}

// The same, and its repetition was answered: the first one comes when the hold
// has been given back.
func TestFirstCallHeldUpAndRepeated(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := heldUp(w)
		h := kit.Must(t)(w.Lock(c).Lock(background))
		time.Sleep(20 * time.Second)
		w.WantCount("x", h.Owner(), 1)
		kit.Unlock(t, h)
		w.WantCount("x", holdfast.Owner{}, 0)
		wantGone(w, shortly)
	})
}

// The same, and somebody else holds the lock when it comes: it does nothing then,
// nor later.
func TestFirstCallHeldUpBesideAHolder(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, _ := heldUp(w)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		other, _ := w.Client()
		h := kit.Must(t)(w.Rival(other).Lock(background))
		time.Sleep(2 * time.Minute)
		if err := h.Context().Err(); err != nil {
			t.Errorf("the holder's context: %v", context.Cause(h.Context()))
		}
		kit.Unlock(t, h)
		w.WantNothing()
	})
}

// Close does not wait for a clock that is far off.
func TestCloseAfterAFirstCallHeldUp(t *testing.T) {
	for _, after := range []time.Duration{0, 2 * time.Second, 20 * time.Second} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				w.Server.SetClock(-time.Minute)
				c, d := w.Client()
				kit.Once(d, "acquire", memdriver.Fault{LoseReply: true})
				ctx, cancel := context.WithTimeout(background, time.Second)
				defer cancel()
				kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
				time.Sleep(after)
				start := time.Now()
				if err := c.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				if took := time.Since(start); took >= holdfast.DefaultTimeout {
					t.Errorf("Close took %v", took)
				}
				w.WantNothing()
			})
		})
	}
}

// A clock that is behind, or far ahead, costs the first call a second send, and
// no call after that.
func TestClocksApart(t *testing.T) {
	for _, apart := range []time.Duration{-time.Hour, -3 * time.Second, 0, 3 * time.Second, time.Hour} {
		t.Run(fmt.Sprint(apart), func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				w.Server.SetClock(apart)
				n := &nodes{servers: []*memdriver.Server{w.Server}}
				c := n.client(t)
				for range 5 {
					kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(background)))
				}
				if late := n.late.Load(); late > 1 || late > 0 && apart <= 0 {
					t.Errorf("%d sends in vain", late)
				}
			})
		})
	}
}

// nodes are servers in memory that have the slots in turn, behind one driver that
// counts the sends which a server has found late.
type nodes struct {
	servers []*memdriver.Server
	drivers []*memdriver.Driver
	late    atomic.Int32
}

func (n *nodes) client(t *testing.T) *holdfast.Client {
	t.Helper()
	for _, s := range n.servers {
		n.drivers = append(n.drivers, s.Driver())
	}
	c, err := testclient.New(n, holdfast.WithoutIdentity())
	kit.OK(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// of returns the node that has a key; the first one has x.
func (n *nodes) of(key string) int { return (script.Slot(key) + script.Slot("x")) % len(n.drivers) }

// Eval asks the node that has the slot.
func (n *nodes) Eval(ctx context.Context, call driver.Call) (any, error) {
	reply, err := n.drivers[n.of(call.Keys[0])].Eval(ctx, call)
	if a, wrong := script.Parse(reply); err == nil && wrong == nil && a.Code == script.Late {
		n.late.Add(1)
	}
	return reply, err
}

func (n *nodes) EvalReplicated(ctx context.Context, call driver.Call, _ int, _ time.Duration) (any, int, error) {
	reply, err := n.Eval(ctx, call)
	return reply, 0, err
}

func (n *nodes) Check() error { return nil }

func (n *nodes) Slotted() bool { return len(n.drivers) > 1 }
func (n *nodes) PublishCommand(ctx context.Context) (string, error) {
	return n.drivers[0].PublishCommand(ctx)
}

// Listen listens on the first node: nobody waits here.
func (n *nodes) Listen(sink func(driver.Event)) driver.Listener { return n.drivers[0].Listen(sink) }

// Two nodes of a cluster whose clocks differ by 3 s: after the first call on each
// slot, no send is in vain.
func TestClocksOfTwoNodes(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		second, err := memdriver.NewServer()
		kit.OK(t, err)
		t.Cleanup(second.Close)
		second.SetClock(3 * time.Second)
		n := &nodes{servers: []*memdriver.Server{w.Server, second}}
		c := n.client(t)
		locks := []kit.AnyLock{w.Kind.Lock(c, "x"), w.Kind.Lock(c, elsewhere(w, n))}
		for round := range 20 {
			for _, mu := range locks {
				h := kit.Must(t)(mu.Lock(background))
				time.Sleep(100 * time.Millisecond)
				kit.Unlock(t, h)
			}
			if round == 0 {
				n.late.Store(0)
			}
		}
		if late := n.late.Load(); late != 0 {
			t.Errorf("%d sends in vain after the first round", late)
		}
	})
}

// A first call about a slot that is held up is waited for by the clock of the
// slot's node, not by another's that has answered before.
func TestFirstCallOfASlotHeldUp(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		second, err := memdriver.NewServer()
		kit.OK(t, err)
		t.Cleanup(second.Close)
		second.SetClock(time.Minute)
		n := &nodes{servers: []*memdriver.Server{w.Server, second}}
		c := n.client(t)
		kit.Unlock(t, kit.Must(t)(w.Kind.Lock(c, elsewhere(w, n)).Lock(background)))
		kit.Once(n.drivers[n.of("x")], "acquire", memdriver.Fault{DelayRequest: 51 * time.Second})
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(w.Lock(c).Lock(ctx))
		wantGone(w, shortly)
	})
}

// elsewhere is the name of a lock that is on the second node.
func elsewhere(w *kit.World, n *nodes) string {
	w.T.Helper()
	for i := range 100 {
		if name := fmt.Sprint("y", i); n.of(name) == 1 {
			return name
		}
	}
	w.T.Fatal("no name is on the second node")
	return ""
}
