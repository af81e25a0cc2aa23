package owner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A hook may close the client, in a goroutine: whichever it is, of one lock or of several. Close takes no time, but for a call whose
// OnWait runs.
func TestHooksMayClose(t *testing.T) {
	locks := map[string]func(c *holdfast.Client) holdfast.Locker{
		"one":     func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") },
		"at once": func(c *holdfast.Client) holdfast.Locker { return holdfast.NewMultiLock(kit.Mutexes(c, "w", "x")...) },
		"one after another": func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewFairMutex("w"), c.NewMutex("x"))
		},
		"redlock": func(c *holdfast.Client) holdfast.Locker { return holdfast.NewRedLock(c.NewMutex("x")) },
	}
	for _, which := range []string{"wait", "refuse", "acquire", "renew", "release", "lost", "end"} {
		for name, lock := range locks {
			if which == "wait" && name == "redlock" {
				continue // its parts do not wait
			}
			t.Run(which+" "+name, func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					var s *stage
					closed := false
					closes := sync.OnceFunc(func() {
						start := time.Now()
						kit.OK(t, s.c.Close())
						s.within(start, 0)
						closed = true
					})
					do := func(what string) func(context.Context, holdfast.Event) {
						return func(context.Context, holdfast.Event) {
							if what == which {
								go closes()
							}
						}
					}
					s = newStage(t, w, []holdfast.ClientOption{holdfast.WithHooks(holdfast.Hooks{
						OnWait: do("wait"), OnRefuse: do("refuse"), OnAcquire: do("acquire"), OnRenew: do("renew"),
						OnRelease: do("release"), OnLost: do("lost"), OnEnd: do("end"),
					})})
					start := time.Now()
					l := lock(s.c)
					use := func(meanwhile func()) {
						if h, err := l.Lock(background); err == nil {
							meanwhile()
							time.Sleep(20 * time.Second)
							_ = h.Unlock() // it may be lost, or closed
						}
					}
					if which != "acquire" { // what it has acquired until it is refused is released
						h := s.heldByOther()
						_, _ = l.TryLock(background)
						s.Unlock(h)
					}
					use(func() {})
					use(func() { _, _ = s.theirs.ForceUnlock(background) })
					h := s.heldByOther()
					if _, err := l.Lock(background, holdfast.Wait(time.Second)); err == nil {
						t.Error("it was acquired")
					}
					s.Unlock(h)
					s.within(start, time.Minute)
					if synctest.Wait(); !closed {
						t.Error("it was not closed")
					}
				})
			})
		}
	}
}

// At the very deadline, Unlock or Detach finds that the hold is lost, and its hooks are told. That of Unlock may close the client, too.
func TestLossAtTheDeadline(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		untold, left := 0, 0
		for i := range 400 {
			c, err := testclient.New(w.Server.Driver(), holdfast.WithMargin(10*time.Second), holdfast.WithTimeout(time.Second))
			kit.OK(t, err)
			var told atomic.Bool
			hooks := holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) {
				told.Store(true)
				if i%2 == 0 {
					go c.Close()
				}
			}})
			h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(30*time.Second), hooks))
			time.Sleep(time.Until(h.Deadline()))
			if i%2 == 0 {
				err = h.Unlock()
			} else {
				_, err = h.Detach()
				kit.WantError(t, err, holdfast.ErrLost)
			}
			_ = c.Close()
			if synctest.Wait(); errors.Is(err, holdfast.ErrLost) && !told.Load() {
				untold++
			}
			if w.PTTL("x") > 0 {
				left++
			}
			time.Sleep(time.Minute)
		}
		if untold > 0 || left > 0 {
			t.Errorf("%d of 400 losses were told to nobody, and Close has left the key in %d", untold, left)
		}
	})
}

// Close waits for a call whose OnWait is running, for the client's timeout at most. What that has been given meanwhile is given back
// when Close returns.
func TestCloseDuringOnWait(t *testing.T) {
	for name, test := range map[string]struct {
		fair   bool
		blocks time.Duration
		want   error
	}{
		"mutex":           {false, time.Second, nil},
		"mutex, for long": {false, time.Minute, context.DeadlineExceeded},
		"fair":            {true, time.Second, nil}, // for longer, its place in the line ends by itself
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				inHook := make(chan struct{})
				var l heard
				hooks := l.hooks()
				hooks.OnWait = func(context.Context, holdfast.Event) {
					close(inHook)
					time.Sleep(test.blocks)
				}
				c, err := testclient.New(w.Server.Driver(), holdfast.WithoutIdentity(), holdfast.WithHooks(hooks))
				kit.OK(t, err)
				x := c.NewMutex("x")
				if test.fair {
					x = c.NewFairMutex("x")
				}
				h := kit.Must(t)(x.Lock(background))
				l.want(t, "acquire")
				waits := kit.Begin(func() (*holdfast.Hold, error) { return x.Lock(background) })
				<-inHook
				kit.Unlock(t, h) // hands it over, if it can
				l.want(t, "release end")
				start := time.Now()
				err = c.Close()
				if took := time.Since(start); !errors.Is(err, test.want) || took > min(test.blocks, 6*time.Second) {
					t.Errorf("Close, after %v: %v", took, err)
				}
				w.WantNothing()
				kit.WantError(t, (<-waits).Err, holdfast.ErrClosed)
				l.want(t, "refuse")
			})
		})
	}
}

// A hold may end before OnAcquire has returned: its end is told after that, and once.
func TestEndIsToldAfterOnAcquire(t *testing.T) {
	for want, end := range map[string]func(c *holdfast.Client){
		"acquire end":      func(c *holdfast.Client) { _ = c.Close() },
		"acquire lost end": func(*holdfast.Client) {}, // its lease ends
	} {
		t.Run(want, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var c *holdfast.Client
				var l heard
				hooks := l.hooks()
				note := hooks.OnAcquire
				hooks.OnAcquire = func(ctx context.Context, e holdfast.Event) {
					go end(c)
					<-ctx.Done()
					time.Sleep(time.Second)
					note(ctx, e)
				}
				c, _ = w.Client(holdfast.WithHooks(hooks))
				h := kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.FixedLease(time.Second)))
				l.want(t, want)
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
		time.AfterFunc(time.Second, func() { kit.Away(d) })
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
