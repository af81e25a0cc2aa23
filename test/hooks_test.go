package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// heard is what hooks were told, in order.
type heard struct {
	mu   sync.Mutex
	seen []string
	last map[string]holdfast.Event
}

type tagKey struct{}

// hooks returns hooks that remember.
func (l *heard) hooks() holdfast.Hooks {
	l.last = map[string]holdfast.Event{}
	note := func(what string) func(context.Context, holdfast.Event) {
		return func(ctx context.Context, e holdfast.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			tag, _ := ctx.Value(tagKey{}).(string)
			l.seen = append(l.seen, what+tag)
			l.last[what] = e
		}
	}
	return holdfast.Hooks{
		OnWait: note("wait"), OnRefuse: note("refuse"), OnAcquire: note("acquire"), OnRenew: note("renew"),
		OnRelease: note("release"), OnLost: note("lost"), OnError: note("error"), OnPass: note("pass"), OnEnd: note("end"),
	}
}

// took returns what was told since the last call.
func (l *heard) took() string {
	time.Sleep(time.Microsecond) // the client's goroutines have told
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := slices.Clone(l.seen)
	l.seen = nil
	return strings.Join(seen, " ")
}

// event is the last of its kind.
func (l *heard) event(what string) holdfast.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[what]
}

func (l *heard) want(t *testing.T, want string) {
	t.Helper()
	if got := l.took(); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// Each thing that happens to a lock is told once, with the context that it happened
// under.
func TestHooks(t *testing.T) {
	fakeKinds(t, func(t *testing.T, w *world) {
		var l heard
		c, d := w.client(holdfast.WithHooks(l.hooks()))
		other, _ := w.client()
		ctx := context.WithValue(background, tagKey{}, "!")
		h := must(t)(w.lock(c).Lock(ctx))
		l.want(t, "acquire!")
		if e := l.event("acquire"); e.Name != "x" || e.Owner() != h.Owner() || e.Token != h.Token() || e.Kind == "" || e.Held != 0 {
			t.Errorf("%+v", e)
		}
		time.Sleep(11 * time.Second)
		if got := l.took(); !strings.HasPrefix(got, "renew!") {
			t.Errorf("told %q", got)
		}
		if e := l.event("renew"); e.Err != nil || e.Held < 5*time.Second {
			t.Errorf("%+v", e)
		}
		unlock(t, h)
		l.want(t, "release! end!")
		if e := l.event("end"); e.Err != nil || e.Held < 11*time.Second || e.HandedOver {
			t.Errorf("%+v", e)
		}

		// It waits, and is refused.
		h = must(t)(w.rival(other).Lock(background))
		_, err := w.lock(c).TryLock(ctx)
		wantError(t, err, holdfast.ErrLocked)
		l.want(t, "refuse!")
		if e := l.event("refuse"); e.HadToWait {
			t.Errorf("%+v", e)
		}
		_, err = w.lock(c).Lock(ctx, holdfast.Wait(2*time.Second))
		wantError(t, err, holdfast.ErrLocked)
		l.want(t, "wait! refuse!")
		if e := l.event("refuse"); !errors.Is(e.Err, holdfast.ErrLocked) || e.Waited < 2*time.Second || !e.HadToWait {
			t.Errorf("%+v", e)
		}
		unlock(t, h)

		// It is lost, and says of what.
		h = must(t)(w.lock(c).Lock(ctx))
		away(d)
		<-h.Context().Done()
		got := l.took()
		if !strings.HasPrefix(got, "acquire! renew!") || !strings.HasSuffix(got, "lost! end!") {
			t.Errorf("told %q", got)
		}
		var lost *holdfast.LostError
		var backend *holdfast.BackendError
		err = l.event("lost").Err
		if !errors.As(err, &lost) || lost.Reason != holdfast.LostUnanswered || !errors.As(err, &backend) {
			t.Errorf("lost because of %v", err)
		}
		if e := l.event("renew"); e.Err == nil {
			t.Error("the renewals that failed are told as if they had not")
		}
		d.SetFaults(nil)
		wantError(t, h.Unlock(), holdfast.ErrLost)
		l.want(t, "")
	})
}

// One who waits is told how many are ahead, and the hooks of a call hear of that call
// alone.
func TestHooksOfAWaiter(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := must(t)(c.NewMutex("x").Lock(background))
		var all sync.WaitGroup
		for ahead := range 3 {
			var l heard
			all.Go(func() {
				unlock(t, must(t)(c.NewMutex("x").Lock(background, holdfast.WithHooks(l.hooks()))))
				if e := l.event("wait"); e.Ahead != ahead || e.Kind != "mutex" {
					t.Errorf("%+v: want %d ahead", e, ahead)
				}
				if e := l.event("acquire"); !e.HadToWait {
					t.Errorf("%+v", e)
				}
				l.want(t, "wait acquire release end")
			})
			synctest.Wait()
		}
		unlock(t, h)
		all.Wait()
	})
}

// Semaphores and latches have no holds, but waiters.
func TestHooksWithoutHolds(t *testing.T) {
	counterWorld(t, 1, func(t *testing.T, w *world) {
		var l heard
		c, d := w.client(holdfast.WithHooks(l.hooks()))
		s := c.NewUnleasedSemaphore("x")
		wantError(t, s.Acquire(background, 2, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		l.want(t, "wait refuse")
		if e := l.event("wait"); e.Kind != "semaphore" {
			t.Errorf("%+v", e)
		}
		ok(t, s.Acquire(background, 1))
		l.want(t, "pass")
		time.AfterFunc(time.Second, func() { ok(t, s.Release(1)) })
		ok(t, s.Acquire(background, 1), s.Release(1))
		l.want(t, "wait pass")
		if e := l.event("pass"); e.Kind != "semaphore" || e.Waited != time.Second || !e.HadToWait {
			t.Errorf("%+v", e)
		}
		latch := c.NewLatch("y")
		_, err := latch.TrySetCount(background, 1)
		ok(t, err)
		time.AfterFunc(time.Second, func() { ok(t, latch.CountDown()) })
		ok(t, latch.Await(background), latch.Await(background))
		l.want(t, "wait pass pass")
		silent(d, memdriver.Fault{LoseRequest: true})
		if err := s.Release(1); err == nil {
			t.Error("no error")
		}
		time.Sleep(3 * time.Minute)
		l.want(t, "error")
		d.SetFaults(nil)
	})
}

// A hook may close the client, in a goroutine.
func TestHooksMayClose(t *testing.T) {
	for _, which := range []string{"wait", "refuse", "acquire", "renew", "release", "lost"} {
		t.Run(which, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				var c *holdfast.Client
				once := sync.OnceFunc(func() { go func() { ok(t, c.Close()) }() })
				do := func(what string) func(context.Context, holdfast.Event) {
					return func(context.Context, holdfast.Event) {
						if what == which {
							once()
						}
					}
				}
				other, _ := w.client()
				c, _ = w.client(holdfast.WithHooks(holdfast.Hooks{
					OnWait: do("wait"), OnRefuse: do("refuse"), OnAcquire: do("acquire"), OnRenew: do("renew"),
					OnRelease: do("release"), OnLost: do("lost"),
				}))
				start := time.Now()
				mu := c.NewMutex("x")
				if h, err := mu.Lock(background); err == nil {
					time.Sleep(20 * time.Second)
					_ = h.Unlock()
				}
				if h, err := mu.Lock(background); err == nil {
					_, _ = other.NewMutex("x").ForceUnlock(background)
					time.Sleep(20 * time.Second)
					_ = h.Unlock()
				}
				h := must(t)(other.NewMutex("x").Lock(background))
				_, err := mu.Lock(background, holdfast.Wait(time.Second))
				if err == nil {
					t.Error("it was acquired")
				}
				unlock(t, h)
				if took := time.Since(start); took > time.Minute {
					t.Error(fmt.Errorf("it took %v", took))
				}
			})
		})
	}
}

// Of several locks, the hooks of the call hear of the whole.
func TestHooksOfSeveral(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		var whole, each heard
		c, _ := w.client(holdfast.WithHooks(each.hooks()))
		other, _ := w.client()
		busy := must(t)(other.NewMutex("b").Lock(background))
		time.AfterFunc(5*time.Second, func() { unlock(t, busy) })
		h := must(t)(holdfast.NewMultiLock(mutexes(c, "a", "b")...).Lock(background, holdfast.WithHooks(whole.hooks())))
		whole.want(t, "wait acquire")
		if got := strings.ReplaceAll(each.took(), " renew", ""); got != "acquire wait acquire" {
			t.Errorf("told %q", got)
		}
		if e := whole.event("acquire"); !e.HadToWait || e.Kind != "multi" {
			t.Errorf("%+v", e)
		}
		unlock(t, h)
		whole.want(t, "release end")
		busy = must(t)(other.NewMutex("b").Lock(background))
		each.took()
		_, err := holdfast.NewMultiLock(mutexes(c, "a", "b")...).TryLock(background, holdfast.WithHooks(whole.hooks()))
		wantError(t, err, holdfast.ErrLocked)
		whole.want(t, "refuse")
		if e := each.event("refuse"); e.Name != "b" {
			t.Errorf("%+v", e)
		}
		unlock(t, busy)
	})
}

// What waits and leaves no hold has hooks of its own, too.
func TestHooksOfOneCallThatLeavesNoHold(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		permits, latch := c.NewUnleasedSemaphore("s"), c.NewLatch("l")
		set, err := permits.TrySetPermits(background, 1)
		ok(t, err)
		if !set {
			t.Fatal("the permits are set")
		}
		var own heard
		hooks := holdfast.WithHooks(own.hooks())
		ok(t, permits.Acquire(background, 1, hooks))
		wantError(t, permits.Acquire(background, 1, hooks, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		ok(t, latch.Await(background, hooks))
		if told := own.took(); told != "pass wait refuse pass" {
			t.Errorf("they were told of %q", told)
		}
		w.do("DEL", "s", "holdfast_calls:{s}")
	})
}
