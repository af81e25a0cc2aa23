package owner

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
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

// A panic of OnWait is one of the call, and so is the end of its goroutine. Nothing of the call is left: the client's next call gets the lock.
func TestOnWaitPanics(t *testing.T) {
	for name, hook := range map[string]struct {
		leave func()
		want  any
	}{
		"panic":   {func() { panic("told") }, "told"},
		"FailNow": {func() { runtime.Goexit() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				other, _ := w.Client()
				h := kit.Must(t)(w.Rival(other).Lock(background))
				how := leaving(func() {
					_, err := w.Lock(c).Lock(background,
						holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { hook.leave() }}))
					t.Errorf("it returned %v", err)
				})
				if how != hook.want {
					t.Errorf("%v, want %v", how, hook.want)
				}
				kit.Unlock(t, h)
				kit.Unlock(t, kit.Must(t)(w.Lock(c).Lock(background, holdfast.Wait(time.Second))))
				kit.Unlock(t, kit.Must(t)(w.Rival(other).Lock(background, holdfast.Wait(time.Second))))
				synctest.Wait() // what it has left in Redis is taken out in the background
				w.WantNothing()
				kit.OK(t, c.Close()) // no call is under way
			})
		})
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
		ofCall  bool // the hooks are those of the call
		several bool // the parts of several locks are given back on other goroutines
	}{
		"mutex":       {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") })},
		"of the call": {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") }), ofCall: true},
		"fair":        {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewFairMutex("x") })},
		"reader":      {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex("x").RLocker() })},
		"one after another": {call: lock(func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewFairMutex("y"))
		}), several: true},
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
				events, over, again := 0, false, false
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					panics := func(context.Context, holdfast.Event) {
						if events++; events == nth && !over {
							panic("told")
						}
					}
					told := holdfast.Hooks{OnAcquire: panics, OnPass: panics}
					if !test.several {
						told.OnRelease = panics
					}
					hooks := holdfast.WithHooks(told)
					c, _ := w.Client()
					var options []holdfast.LockOption
					if test.ofCall {
						options = append(options, hooks)
					} else {
						c, _ = w.Client(hooks)
					}
					other, _ := w.Client()
					how := leaving(func() { kit.OK(t, test.call(c, options...)) })
					over, again = true, how != "returned"
					if again && how != "told" {
						t.Errorf("event %d: %v", nth, how)
					}
					synctest.Wait()
					for _, by := range []*holdfast.Client{c, other} { // one after the other
						start := time.Now()
						kit.OK(t, test.call(by))
						if took := time.Since(start); name != "adopt" && took > 100*time.Millisecond {
							t.Errorf("event %d: the next one waited %v", nth, took)
						}
					}
					w.Do("FLUSHALL") // semaphores stay
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

// Several locks are given back, whichever hook has panicked.
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
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client(holdfast.WithHooks(test.client))
				other, _ := w.Client()
				h := kit.Must(t)(other.NewFairMutex("y").Lock(background, holdfast.FixedLease(2*time.Second)))
				how := leaving(func() {
					_, _ = holdfast.NewMultiLock(c.NewMutex("x"), c.NewFairMutex("y")).Lock(background, holdfast.WithHooks(test.call))
				})
				if how != "told" {
					t.Error(how)
				}
				kit.Unlock(t, kit.Must(t)(other.NewMutex("x").TryLock(background)))
				_ = h.Unlock() // it may have expired
				w.Wipe()
			})
		})
	}
}

// The users of a sync.Locker do not wait for one whose hook has panicked.
func TestSyncLockerWhoseHookPanics(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		told := 0
		c, _ := w.Client(holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) {
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
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		goOn := make(chan struct{})
		panics := holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) {
			<-goOn
			panic("told")
		}})
		c, _ := w.Client()
		h := kit.Must(t)(c.NewMutex("x").Lock(background))
		how := make(chan any)
		go func() { how <- leaving(func() { _, _ = c.NewMutex("x").Lock(background, panics) }) }()
		synctest.Wait()
		kit.Unlock(t, h) // hands it over
		close(goOn)
		if got := <-how; got != "told" {
			t.Error(got)
		}
		kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.Wait(time.Second))))
		w.WantNothing()
	})
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		panics := holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) { panic("told") }})
		c, _ := w.Client()
		s := c.NewPermitSemaphore("s", holdfast.Permits(1))
		h := kit.Must(t)(s.Lock(background))
		if how := leaving(func() { _, _ = s.Lock(background, panics) }); how != "told" {
			t.Error(how)
		}
		kit.Unlock(t, h)
		kit.OK(t, waits(s))
		w.Do("FLUSHALL") // the semaphore stays
	})
}
