package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Close waits for a call whose OnWait is running, for the client's timeout at most. What that has been given meanwhile is given back
// when Close returns.
func TestCloseDuringOnWait(t *testing.T) {
	for _, kind := range []string{"mutex", "fair"} {
		for blocks, want := range map[time.Duration]error{time.Second: nil, time.Minute: context.DeadlineExceeded} {
			if kind == "fair" && want != nil {
				continue // its place in the line ends by itself
			}
			t.Run(kind+" "+blocks.String(), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					inHook := make(chan struct{})
					var l heard
					hooks := l.hooks()
					hooks.OnWait = func(context.Context, holdfast.Event) {
						close(inHook)
						time.Sleep(blocks)
					}
					c, err := testclient.New(w.Server.Driver(), holdfast.WithoutIdentity(), holdfast.WithHooks(hooks))
					kit.OK(t, err)
					lock := func() holdfast.Locker {
						if kind == "fair" {
							return c.NewFairMutex("x")
						}
						return c.NewMutex("x")
					}
					h := kit.Must(t)(lock().Lock(background))
					l.want(t, "acquire")
					waits := kit.Begin(func() (*holdfast.Hold, error) { return lock().Lock(background) })
					<-inHook
					kit.Unlock(t, h) // hands it over, if it can
					l.want(t, "release end")
					start := time.Now()
					err = c.Close()
					if took := time.Since(start); !errors.Is(err, want) || took > min(blocks, 6*time.Second) {
						t.Errorf("Close, after %v: %v", took, err)
					}
					w.WantNothing()
					kit.WantError(t, (<-waits).Err, holdfast.ErrClosed)
					l.want(t, "refuse")
				})
			})
		}
	}
}

// A hold may end before OnAcquire has returned: its end is told after that, and once.
func TestEndIsToldAfterOnAcquire(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(c *holdfast.Client)
		want string
	}{
		"closed": {func(c *holdfast.Client) { _ = c.Close() }, "acquire end"},
		"lost":   {func(*holdfast.Client) {}, "acquire lost end"}, // its lease ends
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var c *holdfast.Client
				var l heard
				hooks := l.hooks()
				note := hooks.OnAcquire
				hooks.OnAcquire = func(ctx context.Context, e holdfast.Event) {
					go test.end(c)
					<-ctx.Done()
					time.Sleep(time.Second)
					note(ctx, e)
				}
				c, _ = w.Client(holdfast.WithHooks(hooks))
				h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(time.Second)))
				l.want(t, test.want)
				if h.Unlock() == nil {
					t.Error("Unlock: no error")
				}
				l.want(t, "")
			})
		})
	}
}

// A clean-up does not wait for OnError: neither the owner's next acquire does, nor Close.
func TestOnErrorDelaysNoCleanUp(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		goOn, told := make(chan struct{}), make(chan struct{}, 100)
		defer close(goOn)
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnError: func(context.Context, holdfast.Event) {
			told <- struct{}{}
			<-goOn
		}}))
		other, _ := w.Client()
		h := kit.Must(t)(other.NewFairMutex("x").Lock(background, holdfast.FixedLease(10*time.Minute)))
		time.AfterFunc(time.Second, func() { kit.Silent(d, memdriver.Fault{LoseRequest: true}) })
		ctx, cancel := context.WithTimeout(holdfast.WithOwner(background, c.NewOwner()), 2*time.Second)
		defer cancel()
		kit.Fails(t, context.DeadlineExceeded)(c.NewFairMutex("x").Lock(ctx))
		<-told // it does not try to leave the line any more
		d.SetFaults(nil)
		kit.Unlock(t, h)
		kit.Unlock(t, kit.Must(t)(c.NewFairMutex("x").TryLock(context.WithoutCancel(ctx))))
		start := time.Now()
		kit.OK(t, c.Close())
		kit.Took(t, time.Since(start), 0, time.Second, "Close took %v")
	})
}
