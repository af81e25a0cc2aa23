package test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Close does not wait for OnWait, but for the acquire that told it: what that has been given meanwhile is given back when
// Close returns.
func TestCloseDuringOnWait(t *testing.T) {
	for _, kind := range []string{"mutex", "fair"} {
		t.Run(kind, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				inHook, goOn := make(chan struct{}), make(chan struct{})
				var l heard
				hooks := l.hooks()
				hooks.OnWait = func(context.Context, holdfast.Event) {
					close(inHook)
					<-goOn
				}
				c, _ := w.client(holdfast.WithHooks(hooks))
				lock := func() holdfast.Locker {
					if kind == "fair" {
						return c.NewFairMutex("x")
					}
					return c.NewMutex("x")
				}
				h := must(t)(lock().Lock(background))
				l.want(t, "acquire")
				returned := make(chan error)
				go func() {
					_, err := lock().Lock(background)
					returned <- err
				}()
				<-inHook
				unlock(t, h) // hands it over, if it can
				l.want(t, "release end")
				start := time.Now()
				ok(t, c.Close())
				if took := time.Since(start); took > time.Second {
					t.Errorf("Close took %v", took)
				}
				w.wantNothing()
				select {
				case err := <-returned:
					t.Errorf("Lock returned before its hook: %v", err)
				case <-time.After(time.Second):
				}
				l.want(t, "")
				close(goOn)
				wantError(t, <-returned, holdfast.ErrClosed)
				l.want(t, "refuse")
			})
		})
	}
}

// A clean-up does not wait for OnError: neither the owner's next acquire does, nor Close.
func TestOnErrorDelaysNoCleanUp(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		goOn, told := make(chan struct{}), make(chan struct{}, 100)
		defer close(goOn)
		c, d := w.client(holdfast.WithHooks(holdfast.Hooks{OnError: func(context.Context, holdfast.Event) {
			told <- struct{}{}
			<-goOn
		}}))
		other, _ := w.client()
		h := must(t)(other.NewFairMutex("x").Lock(background, holdfast.FixedLease(10*time.Minute)))
		time.AfterFunc(time.Second, func() { silent(d, memdriver.Fault{LoseRequest: true}) })
		ctx, cancel := context.WithTimeout(holdfast.WithOwner(background, c.NewOwner()), 2*time.Second)
		defer cancel()
		_, err := c.NewFairMutex("x").Lock(ctx)
		wantError(t, err, context.DeadlineExceeded)
		<-told // it does not try to leave the line any more
		d.SetFaults(nil)
		unlock(t, h)
		unlock(t, must(t)(c.NewFairMutex("x").TryLock(context.WithoutCancel(ctx))))
		start := time.Now()
		ok(t, c.Close())
		if took := time.Since(start); took > time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}
