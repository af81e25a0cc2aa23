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

func panics(context.Context, holdfast.Event) { panic("told") }

// wantPanic checks that a call panics as its hook does.
func wantPanic(t *testing.T, call func()) {
	t.Helper()
	if how := leaving(call); how != "told" {
		t.Errorf("left by %v", how)
	}
}

// A panic of OnWait is one of the call, and so is the end of its goroutine. Nothing of the call is left: the client's next call gets the lock.
func TestOnWaitPanics(t *testing.T) {
	for name, hook := range map[string]struct {
		leave func(context.Context, holdfast.Event)
		want  any
	}{
		"panic":   {panics, "told"},
		"FailNow": {func(context.Context, holdfast.Event) { runtime.Goexit() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fakeKinds(t, func(s *stage) {
				h := s.heldByOther()
				how := leaving(func() {
					_, err := s.x.Lock(background, holdfast.WithHooks(holdfast.Hooks{OnWait: hook.leave}))
					s.Errorf("it returned %v", err)
				})
				if how != hook.want {
					s.Errorf("%v, want %v", how, hook.want)
				}
				s.Unlock(h)
				s.Unlock(s.lock(background, holdfast.Wait(time.Second)))
				s.Unlock(s.heldByOther(holdfast.Wait(time.Second)))
				synctest.Wait() // what it has left in Redis is taken out in the background
				s.WantNothing()
				kit.OK(s.T, s.c.Close()) // no call is under way
			})
		})
	}
}

// One whose OnWait panics may have been handed the lock meanwhile, or have the only right to ask: the next one gets both.
func TestOnWaitPanicsWhileOthersWait(t *testing.T) {
	fake(t, func(s *stage) {
		goOn := make(chan struct{})
		hooks := holdfast.WithHooks(holdfast.Hooks{OnWait: func(context.Context, holdfast.Event) {
			<-goOn
			panic("told")
		}})
		h := s.lock(background)
		call := kit.Aside(func() error {
			wantPanic(s.T, func() { _, _ = s.x.Lock(background, hooks) })
			return nil
		})
		s.Unlock(h) // hands it over
		close(goOn)
		<-call
		s.Unlock(s.lock(background, holdfast.Wait(time.Second)))
		s.WantNothing()

		permits := s.c.NewPermitSemaphore("s", holdfast.Permits(1))
		h = s.Must(permits.Lock(background))
		wantPanic(s.T, func() { _, _ = permits.Lock(background, holdfast.WithHooks(holdfast.Hooks{OnWait: panics})) })
		s.Unlock(h)
		s.Unlock(s.Must(permits.Lock(background, holdfast.Wait(time.Minute))))
		s.Do("FLUSHALL") // the semaphore stays
	})
}

// What a call was given is given back before the panic of a hook reaches the caller: others get it at once.
func TestPanicsOfHooksLeaveNothing(t *testing.T) {
	type call func(c *holdfast.Client, options ...holdfast.LockOption) error
	unlock := func(h *holdfast.Hold, err error) error {
		if err != nil {
			return err
		}
		return h.Unlock()
	}
	lock := func(of func(c *holdfast.Client) holdfast.Locker) call {
		return func(c *holdfast.Client, options ...holdfast.LockOption) error {
			ctx, cancel := context.WithTimeout(background, time.Minute)
			defer cancel()
			return unlock(of(c).Lock(ctx, options...))
		}
	}
	mutex := lock(func(c *holdfast.Client) holdfast.Locker { return c.NewMutex("x") })
	for name, test := range map[string]struct {
		call
		ofCall  bool // the hooks are those of the call
		several bool // the parts of several locks are given back on other goroutines
	}{
		"mutex":       {call: mutex},
		"of the call": {call: mutex, ofCall: true},
		"fair":        {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewFairMutex("x") })},
		"reader":      {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewRWMutex("x").RLocker() })},
		"one after another": {call: lock(func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewFairMutex("y"))
		}), several: true},
		"of several": {call: lock(func(c *holdfast.Client) holdfast.Locker {
			return holdfast.NewMultiLock(c.NewMutex("x"), c.NewMutex("y"))
		}), ofCall: true},
		"redlock": {call: lock(func(c *holdfast.Client) holdfast.Locker { return holdfast.NewRedLock(c.NewMutex("x")) }), ofCall: true},
		"permits": {call: lock(func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("x", holdfast.Permits(1)) })},
		"unleased": {call: func(c *holdfast.Client, _ ...holdfast.LockOption) error {
			s := c.NewUnleasedSemaphore("x", holdfast.Permits(1))
			if err := s.Acquire(background, 1, holdfast.Wait(time.Second)); err != nil {
				return err
			}
			return s.Release(1)
		}},
		"Do": {call: func(c *holdfast.Client, options ...holdfast.LockOption) error {
			return holdfast.Do(background, c.NewMutex("x"), func(context.Context, *holdfast.Hold) error { return nil }, options...)
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
			return unlock(c.NewMutex("x").Adopt(background, owner))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for nth := 1; ; nth++ { // which of the events panics
				events, over, again := 0, false, false
				nthPanics := func(context.Context, holdfast.Event) {
					if events++; events == nth && !over {
						panic("told")
					}
				}
				told := holdfast.Hooks{OnAcquire: nthPanics, OnPass: nthPanics}
				if !test.several {
					told.OnRelease = nthPanics
				}
				var ofClient []holdfast.ClientOption
				var ofCall []holdfast.LockOption
				if hooks := holdfast.WithHooks(told); test.ofCall {
					ofCall = append(ofCall, hooks)
				} else {
					ofClient = append(ofClient, hooks)
				}
				fake(t, func(s *stage) {
					how := leaving(func() { kit.OK(s.T, test.call(s.c, ofCall...)) })
					over, again = true, how != "returned"
					if again && how != "told" {
						s.Errorf("event %d: %v", nth, how)
					}
					synctest.Wait()
					for _, by := range []*holdfast.Client{s.c, s.other} { // one after the other
						start := time.Now()
						kit.OK(s.T, test.call(by))
						if name != "adopt" {
							s.within(start, 100*time.Millisecond)
						}
					}
					s.Do("FLUSHALL") // semaphores stay
				}, ofClient...)
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
	for name, test := range map[string]struct {
		client, call holdfast.Hooks
	}{
		"OnWait of the call":      {call: holdfast.Hooks{OnWait: panics}},
		"OnWait of the client":    {client: holdfast.Hooks{OnWait: panics}},
		"OnAcquire of the client": {client: holdfast.Hooks{OnAcquire: panics}},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				h := s.Must(s.other.NewFairMutex("y").Lock(background, holdfast.FixedLease(2*time.Second)))
				wantPanic(s.T, func() {
					_, _ = holdfast.NewMultiLock(s.x, s.c.NewFairMutex("y")).Lock(background, holdfast.WithHooks(test.call))
				})
				s.Unlock(s.Must(s.theirs.TryLock(background)))
				_ = h.Unlock() // it may have expired
				s.Wipe()
			}, holdfast.WithHooks(test.client))
		})
	}
}

// The users of a sync.Locker do not wait for one whose hook has panicked.
func TestSyncLockerWhoseHookPanics(t *testing.T) {
	told := 0
	hooks := holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) {
		if told++; told == 1 {
			panic("told")
		}
	}})
	fake(t, func(s *stage) {
		ctx, cancel := context.WithTimeout(background, time.Minute)
		defer cancel()
		l := holdfast.SyncLocker(ctx, s.x)
		wantPanic(s.T, l.Lock)
		l.Lock()
		l.Unlock() //nolint:staticcheck // there is nothing to do in between
	}, hooks)
}
