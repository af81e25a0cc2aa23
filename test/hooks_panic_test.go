package test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// leaving says how a call has left its goroutine: "returned", the value that it has panicked with, or nil if it has ended the goroutine.
func leaving(call func()) (how any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if panicked := recover(); panicked != nil {
				how = panicked
			}
		}()
		call()
		how = "returned"
	}()
	<-done
	return how
}

// A panic of OnWait is one of the call, also if the client has closed meanwhile; so is the end of its goroutine.
func TestOnWaitPanics(t *testing.T) {
	for name, hook := range map[string]struct {
		leave func(c *holdfast.Client)
		want  any
	}{
		"panic":             {func(*holdfast.Client) { panic("told") }, "told"},
		"panic after Close": {func(c *holdfast.Client) { _ = c.Close(); panic("told") }, "told"},
		"FailNow":           {func(*holdfast.Client) { runtime.Goexit() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				var c *holdfast.Client
				var l heard
				hooks := l.hooks()
				hooks.OnWait = func(context.Context, holdfast.Event) { hook.leave(c) }
				var behind unended
				c, _ = w.client(holdfast.WithHooks(hooks), holdfast.WithHooks(behind.hooks()))
				other, _ := w.client()
				h := must(t)(other.NewMutex("x").Lock(background))
				how := leaving(func() {
					_, err := c.NewMutex("x").Lock(background)
					t.Errorf("it returned %v", err)
				})
				if how != hook.want {
					t.Errorf("%v, want %v", how, hook.want)
				}
				l.want(t, "refuse")
				behind.want(t, name)
				if err := l.event("refuse").Err; !errors.Is(err, holdfast.ErrInvalid) && !errors.Is(err, holdfast.ErrClosed) {
					t.Errorf("refused with %v", err)
				}
				unlock(t, h)
				w.wantNothing()
			})
		})
	}
}

// unended counts what has begun and not ended.
type unended struct{ waiting, active atomic.Int32 }

func (c *unended) hooks() holdfast.Hooks {
	add := func(to *atomic.Int32, n int32) func(context.Context, holdfast.Event) {
		return func(context.Context, holdfast.Event) { to.Add(n) }
	}
	over := func(_ context.Context, e holdfast.Event) {
		if e.HadToWait {
			c.waiting.Add(-1)
		}
	}
	return holdfast.Hooks{
		OnWait: add(&c.waiting, 1), OnRefuse: over, OnPass: over, OnEnd: add(&c.active, -1),
		OnAcquire: func(ctx context.Context, e holdfast.Event) {
			over(ctx, e)
			c.active.Add(1)
		},
	}
}

func (c *unended) want(t *testing.T, what any) {
	t.Helper()
	if waiting, active := c.waiting.Load(), c.active.Load(); waiting != 0 || active != 0 {
		t.Errorf("%v: %d wait, and %d are active", what, waiting, active)
	}
}

// What a call was given is given back before the panic of a hook reaches the caller: others get it at once.
func TestPanicsOfHooksLeaveNothing(t *testing.T) {
	type call func(c *holdfast.Client, options ...holdfast.LockOption) error
	lock := func(of func(c *holdfast.Client) holdfast.Locker) call {
		return func(c *holdfast.Client, options ...holdfast.LockOption) error {
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			h, err := of(c).Lock(ctx, options...)
			if err != nil {
				return err
			}
			return h.Unlock()
		}
	}
	permits := func(c *holdfast.Client, _ ...holdfast.LockOption) error {
		s := c.NewUnleasedSemaphore("x")
		if _, err := s.TrySetPermits(background, 1); err != nil {
			return err
		}
		if err := s.Acquire(background, 1, holdfast.Wait(time.Second)); err != nil {
			return err
		}
		return s.Release(1)
	}
	for name, test := range map[string]struct {
		call
		ofCall bool // the hooks are those of the call
	}{
		"mutex":       {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") })},
		"of the call": {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") }), ofCall: true},
		"fair":        {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewFairMutex("x") })},
		"reader":      {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex("x").RLocker() })},
		"one after another": {call: lock(func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewFairMutex("y"))
		})},
		"of several": {call: lock(func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("y"))
		}), ofCall: true},
		"redlock":  {call: lock(func(c *holdfast.Client) holdfast.Locker { return holdfast.NewRedLock(c.NewMutex("x")) }), ofCall: true},
		"permits":  {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("x", holdfast.Permits(1)) })},
		"unleased": {call: permits},
		"Do": {call: func(c *holdfast.Client, options ...holdfast.LockOption) error {
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			return holdfast.Do(ctx, c.NewMutex("x"), func(context.Context, *holdfast.Hold) error { return nil }, options...)
		}},
		"adopt": {call: func(c *holdfast.Client, _ ...holdfast.LockOption) error {
			h, err := c.NewMutex("x").Lock(background)
			if err != nil {
				return err
			}
			owner, err := h.Detach()
			if err != nil {
				return err
			}
			if h, err = c.NewMutex("x").Adopt(background, owner); err != nil {
				return err
			}
			return h.Unlock()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for nth := 1; ; nth++ { // which of the events panics
				told, over, again := 0, false, false
				fake(t, func(t *testing.T, w *world) {
					panics := func(context.Context, holdfast.Event) {
						if told++; told == nth && !over {
							panic("told")
						}
					}
					hooks := holdfast.WithHooks(holdfast.Hooks{OnAcquire: panics, OnPass: panics})
					var behind unended
					c, _ := w.client()
					var options []holdfast.LockOption
					if test.ofCall {
						options = append(options, hooks, holdfast.WithHooks(behind.hooks()))
					} else {
						c, _ = w.client(hooks, holdfast.WithHooks(behind.hooks()))
					}
					other, _ := w.client()
					how := leaving(func() { ok(t, test.call(c, options...)) })
					over, again = true, how != "returned"
					if again && how != "told" {
						t.Errorf("event %d: %v", nth, how)
					}
					synctest.Wait()
					behind.want(t, again)
					for _, by := range []*holdfast.Client{c, other} { // one after the other
						start := time.Now()
						ok(t, test.call(by))
						if took := time.Since(start); name != "adopt" && took > 100*time.Millisecond {
							t.Errorf("event %d: the next one waited %v", nth, took)
						}
					}
					w.do("FLUSHALL") // semaphores stay
				})
				if !again {
					if nth == 1 {
						t.Error("no hook was told")
					}
					return
				}
			}
		})
	}
}

// A hook that ends before OnAcquire has returned, since that has closed the client, is told of it, too.
func TestOnAcquireClosesAndPanics(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		var c *holdfast.Client
		var l heard
		hooks := l.hooks()
		note := hooks.OnAcquire
		hooks.OnAcquire = func(ctx context.Context, e holdfast.Event) {
			note(ctx, e)
			ok(t, c.Close())
			panic("told")
		}
		c, _ = w.client(holdfast.WithHooks(hooks))
		if how := leaving(func() { _, _ = c.NewMutex("x").Lock(background) }); how != "told" {
			t.Error(how)
		}
		l.want(t, "acquire end")
	})
}

// The hooks of several locks are told that the call is over, whichever hook has panicked.
func TestHooksOfSeveralLocksThatPanic(t *testing.T) {
	panics := func(context.Context, holdfast.Event) { panic("told") }
	for name, test := range map[string]struct {
		client, call holdfast.Hooks
	}{
		"OnWait of the call":      {call: holdfast.Hooks{OnWait: panics}},
		"OnWait of the client":    {client: holdfast.Hooks{OnWait: panics}},
		"OnAcquire of the client": {client: holdfast.Hooks{OnAcquire: panics}},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				c, _ := w.client(holdfast.WithHooks(test.client))
				other, _ := w.client()
				h := must(t)(other.NewFairMutex("y").Lock(background, holdfast.FixedLease(2*time.Second)))
				var behind unended
				how := leaving(func() {
					_, _ = holdfast.NewMultiLock(c.NewMutex("x"), c.NewFairMutex("y")).Lock(background,
						holdfast.WithHooks(test.call), holdfast.WithHooks(behind.hooks()))
				})
				if how != "told" {
					t.Error(how)
				}
				behind.want(t, name)
				unlock(t, must(t)(other.NewMutex("x").TryLock(background)))
				_ = h.Unlock() // it may have expired
				w.wipe()
			})
		})
	}
}

// A RedLock does not wait for a server whose hook has ended its goroutine.
func TestHookEndsGoroutineOfPart(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		s := several(w, 3, holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) { runtime.Goexit() }}))
		_, err := s.redlock("x").Lock(background)
		wantError(t, err, holdfast.ErrInvalid)
		synctest.Wait()
		s.wantFree(t)
	})
}

// The users of a sync.Locker do not wait for one whose hook has panicked.
func TestSyncLockerWhoseHookPanics(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		told := 0
		c, _ := w.client(holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) {
			if told++; told == 1 {
				panic("told")
			}
		}}))
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		l := holdfast.SyncLocker(ctx, c.NewMutex("x"))
		if how := leaving(l.Lock); how != "told" {
			t.Error(how)
		}
		l.Lock()
		l.Unlock() //nolint:staticcheck // there is nothing to do in between
	})
}

// One whose OnWait panics may have been handed the lock meanwhile, or have the only right to ask: the next one gets both.
func TestOnWaitPanicsWhileOthersWait(t *testing.T) {
	waits := func(s *holdfast.PermitSemaphore) error {
		h, err := s.Lock(background, holdfast.Wait(time.Minute))
		if err != nil {
			return err
		}
		return h.Unlock()
	}
	fake(t, func(t *testing.T, w *world) {
		goOn := make(chan struct{})
		panics := holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) {
			<-goOn
			panic("told")
		}})
		c, _ := w.client()
		h := must(t)(c.NewMutex("x").Lock(background))
		how := make(chan any)
		go func() { how <- leaving(func() { _, _ = c.NewMutex("x").Lock(background, panics) }) }()
		synctest.Wait()
		unlock(t, h) // hands it over
		close(goOn)
		if got := <-how; got != "told" {
			t.Error(got)
		}
		unlock(t, must(t)(c.NewMutex("x").Lock(background, holdfast.Wait(time.Second))))
		w.wantNothing()
	})
	fake(t, func(t *testing.T, w *world) {
		panics := holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { panic("told") }})
		c, _ := w.client()
		s := c.NewPermitSemaphore("s", holdfast.Permits(1))
		h := must(t)(s.Lock(background))
		if how := leaving(func() { _, _ = s.Lock(background, panics) }); how != "told" {
			t.Error(how)
		}
		unlock(t, h)
		ok(t, waits(s))
		w.do("FLUSHALL") // the semaphore stays
	})
}
