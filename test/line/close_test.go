package line

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Close ends waiters and calls under way, gives back holds, also those that nobody was told of, and leaves nothing.
func TestCloseEndsEverything(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		holds := make([]*holdfast.Hold, 20)
		for i := range holds {
			holds[i] = kit.Must(t)(w.Use(c, fmt.Sprint("x", i)).Lock(background))
		}
		if w.Kind.Nests() {
			holds = append(holds, kit.Must(t)(w.Kind.Lock(c, "x0").Lock(holds[0].Context())))
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				kit.Fails(t, holdfast.ErrClosed)(w.Kind.Against(c, fmt.Sprint("x", i)).Lock(background))
			})
		}
		time.Sleep(5 * time.Second)
		y, z := w.Use(c, "y"), w.Use(c, "z")
		kit.Every(d, "acquire", memdriver.Fault{DelayReply: time.Second})
		underWay := kit.Begin(func() (*holdfast.Hold, error) { return y.TryLock(background) })
		kit.Every(d, "acquire", kit.LostRequest)
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(z.TryLock(ctx)) // it may come later, and be given back then
		kit.OK(t, c.Close())
		kit.WantError(t, (<-underWay).Err, holdfast.ErrClosed)
		wg.Wait()
		for _, h := range holds {
			kit.WantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
			kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		}
		w.WantNothing()
		kit.Fails(t, holdfast.ErrClosed)(w.Lock(c).Lock(background))
		kit.Fails(t, holdfast.ErrClosed)(w.Lock(c).TryLock(background))
		_, err := w.Lock(c).Inspect(background)
		kit.WantError(t, err, holdfast.ErrClosed)
	})
}

// A hook may close the client: Close does not wait for the call that runs it.
func TestCloseFromAHook(t *testing.T) {
	type hook = func(context.Context, holdfast.Event)
	lost := func(f hook) holdfast.Hooks { return holdfast.Hooks{OnLost: f} }
	for name, test := range map[string]struct {
		hooks func(closing hook) holdfast.Hooks
		cause func(w *kit.World, d *memdriver.Driver, h *holdfast.Hold)
	}{
		"acquired": {
			func(f hook) holdfast.Hooks { return holdfast.Hooks{OnAcquire: f} },
			func(*kit.World, *memdriver.Driver, *holdfast.Hold) {},
		},
		"released": {
			func(f hook) holdfast.Hooks { return holdfast.Hooks{OnRelease: f} },
			func(_ *kit.World, _ *memdriver.Driver, h *holdfast.Hold) { _ = h.Unlock() },
		},
		"lost": {lost, func(*kit.World, *memdriver.Driver, *holdfast.Hold) { time.Sleep(2 * time.Second) }}, // the lease
		"lost, found by Unlock": {lost, func(w *kit.World, _ *memdriver.Driver, h *holdfast.Hold) {
			w.Do("DEL", "x")
			_ = h.Unlock()
		}},
		"failed": {
			func(f hook) holdfast.Hooks { return holdfast.Hooks{OnError: f} },
			func(_ *kit.World, d *memdriver.Driver, h *holdfast.Hold) {
				kit.All(d, memdriver.Fault{Refuse: errors.New("no")})
				_ = h.Unlock()
				time.Sleep(time.Minute)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			fakeMutex(t, func(s *stage) {
				var c *holdfast.Client
				took := make(chan time.Duration, 9)
				d := s.Server.Driver()
				c = s.clientOf(d, d, holdfast.WithHooks(test.hooks(func(context.Context, holdfast.Event) {
					start := time.Now()
					kit.OK(t, c.Close())
					took <- time.Since(start)
				})))
				h := kit.Must(t)(s.Lock(c).Lock(background, holdfast.FixedLease(time.Second)))
				test.cause(s.World, d, h)
				kit.Took(t, <-took, 0, 0, "Close took %v")
			})
		})
	}
}

// Close says so if Redis does not take a lock back, for good or for the client's timeout, by which Close is bounded.
func TestCloseSaysWhatIsKept(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for what, fault := range map[string]memdriver.Fault{
		"silent":    kit.LostRequest,
		"forbidden": {Refuse: driver.ServerError("NOPERM", errors.New("NOPERM"))},
		"read-only": {Refuse: driver.ServerError("MISCONF", errors.New("MISCONF"))},
	} {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			c, d := w.Known(holdfast.WithTimeout(timeout))
			kit.Must(t)(w.Lock(c).Lock(background))
			kit.All(d, fault)
			start := time.Now()
			err := c.Close()
			kit.Took(t, time.Since(start), 0, timeout, "Close took %v")
			if err == nil || errors.Is(err, context.DeadlineExceeded) != fault.LoseRequest ||
				!strings.Contains(err.Error(), `1 left, of ["`+w.Names[0]+`"], whose leases end within `) {
				t.Errorf("%s: Close: %v", what, err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("the second Close: %v", err)
			}
			time.Sleep(time.Hour) // the lease, and what the client has said of itself
		})
	}
}

// keptBefore leaves something to give back to Redis, which does not reply: by an Unlock, or after an acquire without a reply.
var keptBefore = map[string]func(w *kit.World, d *memdriver.Driver, l kit.AnyLock){
	"an unlock": func(w *kit.World, d *memdriver.Driver, l kit.AnyLock) {
		h := w.Must(l.Lock(background))
		kit.Away(d)
		if err := h.Unlock(); err == nil {
			w.T.Error("Unlock says nothing")
		}
	},
	"an acquire": func(w *kit.World, d *memdriver.Driver, l kit.AnyLock) {
		ctx, cancel := context.WithTimeout(background, time.Millisecond)
		defer cancel()
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseReply: call.Script.Name() == "acquire", LoseRequest: call.Script.Name() != "acquire"}
		})
		kit.Fails(w.T, context.DeadlineExceeded)(l.TryLock(ctx))
	},
}

// So it does if that was to be given back before.
func TestCloseSaysWhatWasKeptBefore(t *testing.T) {
	for what, begin := range keptBefore {
		t.Run(what, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Known()
				begin(w, d, w.Lock(c))
				time.Sleep(5 * time.Second) // a call of it is over before Close has to be
				start := time.Now()
				if err := c.Close(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Close: %v", err)
				}
				kit.Took(t, time.Since(start), 0, holdfast.DefaultTimeout, "Close took %v")
				time.Sleep(time.Hour) // the lease, and what the client has said of itself
			})
		})
	}
}

// A call without a reply that ends while the client closes is followed by another, which succeeds if Redis is there again.
func TestCloseGivesBackWhatWasKeptBefore(t *testing.T) {
	for what, begin := range keptBefore {
		t.Run(what, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				begin(w, d, w.Lock(c))
				time.Sleep(5 * time.Second)
				closed := make(chan error, 1)
				go func() { closed <- c.Close() }()
				time.Sleep(500 * time.Millisecond) // the last attempt of a call is lost, and the next call is yet to come
				d.SetFaults(nil)
				kit.OK(t, <-closed)
				w.WantNothing()
			})
		})
	}
}

// Where nothing reaches Redis, what Close has to give back may end with its lease before Close gives up: then nothing is left.
func TestCloseOutlivesTheLease(t *testing.T) {
	for lease, want := range map[time.Duration]error{30 * time.Second: context.DeadlineExceeded, time.Second: nil} {
		kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client(holdfast.WithLease(lease), holdfast.WithTimeout(2*time.Second))
			kit.Must(t)(w.Lock(c).Lock(background))
			refused := errors.New("connection refused")
			kit.All(d, memdriver.Fault{Refuse: refused})
			if err := c.Close(); !errors.Is(err, want) || want != nil && !errors.Is(err, refused) {
				t.Errorf("a lease of %v: Close: %v, want %v, and why", lease, err, want)
			}
			time.Sleep(time.Hour) // the lease, and what the client has said of itself
		})
	}
}
