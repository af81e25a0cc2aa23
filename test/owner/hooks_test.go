package owner

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
	"github.com/holdfast-go/holdfast/test/kit"
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
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		var l heard
		c, d := w.Client(holdfast.WithHooks(l.hooks()))
		other, _ := w.Client()
		ctx := context.WithValue(background, tagKey{}, "!")
		h := kit.Must(t)(w.Lock(c).Lock(ctx))
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
		kit.Unlock(t, h)
		l.want(t, "release! end!")
		if e := l.event("end"); e.Err != nil || e.Held < 11*time.Second || e.HandedOver {
			t.Errorf("%+v", e)
		}

		// It waits, and is refused.
		h = kit.Must(t)(w.Rival(other).Lock(background))
		kit.Fails(t, holdfast.ErrLocked)(w.Lock(c).TryLock(ctx))
		l.want(t, "refuse!")
		if e := l.event("refuse"); e.HadToWait {
			t.Errorf("%+v", e)
		}
		kit.Fails(t, holdfast.ErrLocked)(w.Lock(c).Lock(ctx, holdfast.Wait(2*time.Second)))
		l.want(t, "wait! refuse!")
		if e := l.event("refuse"); !errors.Is(e.Err, holdfast.ErrLocked) || e.Waited < 2*time.Second || !e.HadToWait {
			t.Errorf("%+v", e)
		}
		kit.Unlock(t, h)

		// It is lost, and says of what.
		h = kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Away(d)
		<-h.Context().Done()
		got := l.took()
		if !strings.HasPrefix(got, "acquire! renew!") || !strings.HasSuffix(got, "lost! end!") {
			t.Errorf("told %q", got)
		}
		var lost *holdfast.LostError
		var backend *holdfast.BackendError
		err := l.event("lost").Err
		if !errors.As(err, &lost) || lost.Reason != holdfast.LostUnanswered || !errors.As(err, &backend) {
			t.Errorf("lost because of %v", err)
		}
		if e := l.event("renew"); e.Err == nil {
			t.Error("the renewals that failed are told as if they had not")
		}
		d.SetFaults(nil)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		l.want(t, "")
	})
}

// One who waits is told how many are ahead, and the hooks of a call hear of that call
// alone.
func TestHooksOfAWaiter(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(c.NewMutex("x").Lock(background))
		var all sync.WaitGroup
		for ahead := range 3 {
			var l heard
			all.Go(func() {
				kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Lock(background, holdfast.WithHooks(l.hooks()))))
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
		kit.Unlock(t, h)
		all.Wait()
	})
}

// Semaphores and latches have no holds, but waiters.
func TestHooksWithoutHolds(t *testing.T) {
	kit.CounterWorld(t, 1, func(t *testing.T, w *kit.World) {
		var l heard
		c, d := w.Client(holdfast.WithHooks(l.hooks()))
		s := c.NewUnleasedSemaphore("x")
		kit.WantError(t, s.Acquire(background, 2, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		l.want(t, "wait refuse")
		if e := l.event("wait"); e.Kind != "semaphore" {
			t.Errorf("%+v", e)
		}
		kit.OK(t, s.Acquire(background, 1))
		l.want(t, "pass")
		time.AfterFunc(time.Second, func() { kit.OK(t, s.Release(1)) })
		kit.OK(t, s.Acquire(background, 1), s.Release(1))
		l.want(t, "wait pass")
		if e := l.event("pass"); e.Kind != "semaphore" || e.Waited != time.Second || !e.HadToWait {
			t.Errorf("%+v", e)
		}
		latch := c.NewLatch("y")
		_, err := latch.TrySetCount(background, 1)
		kit.OK(t, err)
		time.AfterFunc(time.Second, func() { kit.OK(t, latch.CountDown()) })
		kit.OK(t, latch.Await(background), latch.Await(background))
		l.want(t, "wait pass pass")
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
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
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var c *holdfast.Client
				once := sync.OnceFunc(func() { go func() { kit.OK(t, c.Close()) }() })
				do := func(what string) func(context.Context, holdfast.Event) {
					return func(context.Context, holdfast.Event) {
						if what == which {
							once()
						}
					}
				}
				other, _ := w.Client()
				c, _ = w.Client(holdfast.WithHooks(holdfast.Hooks{
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
				h := kit.Must(t)(other.NewMutex("x").Lock(background))
				_, err := mu.Lock(background, holdfast.Wait(time.Second))
				if err == nil {
					t.Error("it was acquired")
				}
				kit.Unlock(t, h)
				if took := time.Since(start); took > time.Minute {
					t.Error(fmt.Errorf("it took %v", took))
				}
			})
		})
	}
}

// Of several locks, the hooks of the call hear of the whole.
func TestHooksOfSeveral(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var whole, each heard
		c, _ := w.Client(holdfast.WithHooks(each.hooks()))
		other, _ := w.Client()
		busy := kit.Must(t)(other.NewMutex("b").Lock(background))
		time.AfterFunc(5*time.Second, func() { kit.Unlock(t, busy) })
		h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background, holdfast.WithHooks(whole.hooks())))
		whole.want(t, "wait acquire")
		if got := strings.ReplaceAll(each.took(), " renew", ""); got != "acquire wait acquire" {
			t.Errorf("told %q", got)
		}
		if e := whole.event("acquire"); !e.HadToWait || e.Kind != "multi" {
			t.Errorf("%+v", e)
		}
		kit.Unlock(t, h)
		whole.want(t, "release end")
		busy = kit.Must(t)(other.NewMutex("b").Lock(background))
		each.took()
		kit.Fails(t, holdfast.ErrLocked)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).TryLock(background, holdfast.WithHooks(whole.hooks())))
		whole.want(t, "refuse")
		if e := each.event("refuse"); e.Name != "b" {
			t.Errorf("%+v", e)
		}
		kit.Unlock(t, busy)
	})
}

// What waits and leaves no hold has hooks of its own, too.
func TestHooksOfOneCallThatLeavesNoHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		permits, latch := c.NewUnleasedSemaphore("s"), c.NewLatch("l")
		set, err := permits.TrySetPermits(background, 1)
		kit.OK(t, err)
		if !set {
			t.Fatal("the permits are set")
		}
		var own heard
		hooks := holdfast.WithHooks(own.hooks())
		kit.OK(t, permits.Acquire(background, 1, hooks))
		kit.WantError(t, permits.Acquire(background, 1, hooks, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		kit.OK(t, latch.Await(background, hooks))
		if told := own.took(); told != "pass wait refuse pass" {
			t.Errorf("they were told of %q", told)
		}
		w.Do("DEL", "s", "holdfast_calls:{s}")
	})
}
