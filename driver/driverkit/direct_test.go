package driverkit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

// direct is a server that callers send to themselves. It replies after a delay, or not.
type direct struct {
	delay time.Duration
	err   error
	calls int // that were sent directly; only one at a time is
}

func (d *direct) eval(_ context.Context, timeout time.Duration, call driver.Call) (any, error) {
	d.calls++
	if d.delay > timeout {
		time.Sleep(timeout)
		return nil, driver.ConnectionError(context.DeadlineExceeded, false)
	}
	time.Sleep(d.delay)
	return call.Keys[0], d.err
}

// onDirect runs f with a group whose callers may send their calls themselves: the server has
// replied to one.
func onDirect(t *testing.T, d *direct, f func(t *testing.T, g *Group, e *echo)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		e := &echo{delay: time.Millisecond}
		g := NewGroup(e.send, d.eval, noRenewal)
		if _, err := g.Eval(t.Context(), callOf("first")); err != nil || d.calls != 0 || e.sent() != 1 {
			t.Errorf("the first: %v; %d direct", err, d.calls)
		}
		time.Sleep(time.Second)
		f(t, g, e)
		time.Sleep(time.Second)
		checkNothingLeft(t, g)
	})
}

// One caller at a time sends its call itself; those who come meanwhile have workers.
func TestDirect(t *testing.T) {
	d := &direct{delay: 5 * time.Millisecond}
	onDirect(t, d, func(t *testing.T, g *Group, e *echo) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if reply, err := g.Eval(t.Context(), callOf("k")); reply != "k" || err != nil {
					t.Errorf("%v, %v", reply, err)
				}
			})
		}
		all.Wait()
		if d.calls != 1 || e.sent() != 10 {
			t.Errorf("%d direct, %d sent by workers", d.calls, e.sent())
		}
		for range 5 {
			if _, err := g.Eval(t.Context(), callOf("k")); err != nil {
				t.Error(err)
			}
		}
		if d.calls != 6 {
			t.Errorf("%d direct in the end", d.calls)
		}
	})
}

// A call that the server has refused with ErrNotRun is sent by a worker.
func TestDirectNotRun(t *testing.T) {
	onDirect(t, &direct{err: ErrNotRun}, func(t *testing.T, g *Group, e *echo) {
		if reply, err := g.Eval(t.Context(), callOf("k")); reply != "k" || err != nil || e.sent() != 2 {
			t.Errorf("%v, %v; %d sent", reply, err, e.sent())
		}
	})
}

// A caller that sends its call itself leaves after DirectTimeout at the latest. While the server
// is silent no other caller sends its call itself.
func TestDirectSilence(t *testing.T) {
	for name, row := range map[string]struct {
		cancelled time.Duration // after which the caller's context is
		deadline  time.Duration
		took      time.Duration
		err       error
	}{
		"cancelled": {cancelled: 100 * time.Millisecond, took: DirectTimeout, err: context.Canceled},
		"deadline":  {deadline: 100 * time.Millisecond, took: 100 * time.Millisecond, err: context.DeadlineExceeded},
		"patient":   {deadline: time.Hour, took: DirectTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			d := &direct{delay: time.Hour}
			onDirect(t, d, func(t *testing.T, g *Group, _ *echo) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.cancelled > 0 {
					time.AfterFunc(row.cancelled, cancel)
				} else {
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				start := time.Now()
				_, err := g.Eval(ctx, callOf("k"))
				var failed *driver.Error
				if took := time.Since(start); !errors.As(err, &failed) || row.err != nil && !errors.Is(err, row.err) || !failed.MayHaveRun || took != row.took {
					t.Errorf("%v after %v", err, took)
				}
				if name == "patient" && errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v looks like the caller's own deadline", err)
				}
				if _, err := g.Eval(t.Context(), callOf("k")); err != nil || d.calls != 1 {
					t.Errorf("then %v; %d direct", err, d.calls)
				}
			})
		})
	}
}

// After no reply, or a slow one, workers send the calls until there is a prompt reply.
func TestDirectAfterTrouble(t *testing.T) {
	away := driver.ConnectionError(errors.New("away"), true)
	refused := driver.ServerError("ERR no", errors.New("ERR no"))
	for name, row := range map[string]struct {
		direct
		again bool
	}{
		"away":    {direct{err: away}, false},
		"slow":    {direct{delay: 2 * slowReply}, false},
		"refused": {direct{err: refused}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &row.direct
			onDirect(t, d, func(t *testing.T, g *Group, _ *echo) {
				for range 2 {
					_, _ = g.Eval(t.Context(), callOf("k")) // what matters is who sends it
				}
				if (d.calls == 2) != row.again {
					t.Errorf("%d direct", d.calls)
				}
			})
		})
	}
}
