package owner

import (
	"context"
	"errors"
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

// heard is what hooks were told, in order, but for renewals, of which it has the last.
type heard struct {
	mu             sync.Mutex
	seen           []string
	last           map[string]holdfast.Event
	waiting, holds map[string]int // by kind: what has begun and not ended
	ends           []error        // of holds
}

// tagKey is that of a text in a context. It is told with each event under that context.
type tagKey struct{}

// hooks returns hooks that remember.
func (l *heard) hooks() holdfast.Hooks {
	l.last, l.waiting, l.holds = map[string]holdfast.Event{}, map[string]int{}, map[string]int{}
	note := func(what string) func(context.Context, holdfast.Event) {
		return func(ctx context.Context, e holdfast.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			tag, _ := ctx.Value(tagKey{}).(string)
			l.last[what+tag] = e
			if what != "renew" {
				l.seen = append(l.seen, what+tag)
			}
			if e.HadToWait {
				l.waiting[e.Kind]--
			}
			switch what {
			case "wait":
				l.waiting[e.Kind]++
			case "acquire":
				l.holds[e.Kind]++
			case "end":
				l.holds[e.Kind]--
				l.ends = append(l.ends, e.Err)
			}
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

// wantNow checks how many wait and hold now, over all kinds, and how the last holds have ended: each error matches.
func (l *heard) wantNow(t *testing.T, waiting, holds int, ends ...error) {
	t.Helper()
	synctest.Wait() // the client's goroutines have told
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := func(counts map[string]int) (all int) {
		for kind, n := range counts {
			if n < 0 {
				t.Errorf("%d of %s", n, kind)
			}
			all += n
		}
		return all
	}
	last := l.ends[max(0, len(l.ends)-len(ends)):]
	if sum(l.waiting) != waiting || sum(l.holds) != holds || !slices.EqualFunc(last, ends, errors.Is) {
		t.Errorf("waiting %v, held %v, ended by %v; want %d, %d and %v", l.waiting, l.holds, last, waiting, holds, ends)
	}
}

// Each thing that happens to a lock is told once, with the context that it happened under, however an acquire and a hold end.
func TestHooks(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		var l heard
		s := newStage(t, w, []holdfast.ClientOption{holdfast.WithHooks(l.hooks())})
		ctx := context.WithValue(background, tagKey{}, "!")

		// A hold.
		h := s.lock(ctx)
		l.want(t, "acquire!")
		kind := s.Kind.Variant.Kind.Name
		if e := l.event("acquire!"); e.Name != "x" || e.Owner() != h.Owner() || e.Token != h.Token() || e.Kind != kind || e.Held != 0 {
			t.Errorf("%+v", e)
		}
		time.Sleep(11 * time.Second)
		if e := l.event("renew!"); e.Err != nil || e.Held < 5*time.Second {
			t.Errorf("%+v", e)
		}
		if s.Kind.Nests() {
			s.Unlock(s.lock(h.Context()))
			l.want(t, "acquire! release! end!")
		}
		s.Unlock(h)
		kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
		l.want(t, "release! end!")
		if e := l.event("end!"); e.Err != nil || e.Held < 11*time.Second || e.HandedOver {
			t.Errorf("%+v", e)
		}
		owner := s.detach(s.lock(ctx))
		l.want(t, "acquire! end!")
		s.Unlock(s.Must(s.x.Adopt(ctx, owner)))
		l.want(t, "acquire! release! end!")
		l.wantNow(t, 0, 0, nil, nil, nil)

		// It is lost, and says of what.
		for _, unlocked := range []bool{true, false} {
			h = s.lock(ctx)
			kit.Force(t, s.x)
			<-h.Context().Done()
			if unlocked {
				s.Lost(h)
			}
			l.want(t, "acquire! lost! end!")
			l.wantNow(t, 0, 0, holdfast.ErrLost)
		}
		h = s.lock(ctx)
		kit.Away(s.d)
		<-h.Context().Done()
		l.want(t, "acquire! lost! end!")
		var lost *holdfast.LostError
		var backend *holdfast.BackendError
		err := l.event("lost!").Err
		if !errors.As(err, &lost) || lost.Reason != holdfast.LostUnanswered || !errors.As(err, &backend) || l.event("renew!").Err == nil {
			t.Errorf("lost because of %v, after a renewal that says %v", err, l.event("renew!").Err)
		}
		s.d.SetFaults(nil)
		s.Lost(h)
		l.want(t, "")
		l.wantNow(t, 0, 0, holdfast.ErrLost)
		h = s.lock(ctx)
		kit.Away(s.d)
		if err := h.Unlock(); !errors.As(err, &backend) {
			t.Errorf("Unlock: %v", err)
		}
		s.d.SetFaults(nil)
		l.want(t, "acquire! end!")
		l.wantNow(t, 0, 0, backend)
		time.Sleep(time.Minute)
		l.took()

		// It waits, and is refused, or gives up, or is granted the lock.
		h = s.heldByOther()
		kit.Fails(t, holdfast.ErrLocked)(s.x.TryLock(ctx))
		l.want(t, "refuse!")
		if e := l.event("refuse!"); e.HadToWait {
			t.Errorf("%+v", e)
		}
		kit.Fails(t, holdfast.ErrLocked)(s.x.Lock(ctx, holdfast.Wait(2*time.Second)))
		l.want(t, "wait! refuse!")
		if e := l.event("refuse!"); !errors.Is(e.Err, holdfast.ErrLocked) || e.Waited < 2*time.Second || !e.HadToWait {
			t.Errorf("%+v", e)
		}
		waiting, cancel := context.WithCancel(ctx)
		cancelled, granted := s.begin(waiting), s.begin(ctx)
		l.wantNow(t, 2, 0)
		cancel()
		s.failed(cancelled, context.Canceled)
		l.wantNow(t, 1, 0)
		s.Unlock(h)
		h = s.got(granted)
		l.wantNow(t, 0, 1)

		// The client is closed.
		closed := kit.Waiting(t, s.Rival(s.c), background)
		l.wantNow(t, 1, 1)
		kit.OK(t, s.c.Close())
		<-closed
		l.wantNow(t, 0, 0, holdfast.ErrClosed)
		kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		l.wantNow(t, 0, 0)
	})
}

// One who waits is told how many are ahead, and the hooks of a call hear of that call
// alone.
func TestHooksOfAWaiter(t *testing.T) {
	fake(t, func(s *stage) {
		h := s.lock(background)
		var all sync.WaitGroup
		for ahead := range 3 {
			var l heard
			all.Go(func() {
				kit.Turn(s.T)(s.x.Lock(background, holdfast.WithHooks(l.hooks())))
				if e := l.event("wait"); e.Ahead != ahead || e.Kind != "mutex" || !l.event("acquire").HadToWait {
					s.Errorf("%+v: want %d ahead", e, ahead)
				}
				l.want(s.T, "wait acquire release end")
			})
			synctest.Wait()
		}
		s.Unlock(h)
		all.Wait()
	})
}

// What begins ends, also where holds pass from one to the next, and share.
func TestHooksArePairedInsideTheProcess(t *testing.T) {
	var l heard
	fake(t, func(s *stage) {
		h := s.lock(background)
		next, third := s.begin(background), s.begin(background)
		l.wantNow(s.T, 2, 1)
		s.Unlock(h)
		h = s.got(next)
		l.wantNow(s.T, 1, 1, nil)
		kit.Force(s.T, s.x)
		time.Sleep(time.Minute) // lost, while one waits for it
		last := s.got(third)
		l.wantNow(s.T, 0, 1, holdfast.ErrLost)
		s.Lost(h)
		s.Unlock(last)
		l.wantNow(s.T, 0, 0, nil)

		reader := s.c.NewRWMutex("y").RLocker()
		share := func() (holds [3]*holdfast.Hold) {
			for i := range holds {
				holds[i] = s.Must(reader.Lock(background))
			}
			l.wantNow(s.T, 0, 3)
			return holds
		}
		holds := share()
		s.Unlock(holds[0])
		l.wantNow(s.T, 0, 2, nil)
		kit.Force(s.T, reader)
		time.Sleep(time.Minute)
		l.wantNow(s.T, 0, 0, holdfast.ErrLost, holdfast.ErrLost)
		s.Lost(holds[1])
		s.Lost(holds[2])
		l.wantNow(s.T, 0, 0)
		share()
		kit.OK(s.T, s.c.Close())
		l.wantNow(s.T, 0, 0, holdfast.ErrClosed, holdfast.ErrClosed, holdfast.ErrClosed)
	}, holdfast.WithHooks(l.hooks()))
}

// Semaphores and latches have no holds, but waiters, and permits have both. A call has hooks of its own, too.
func TestHooksOfPermits(t *testing.T) {
	var l heard
	fake(t, func(s *stage) {
		permits, plain, latch := s.c.NewPermitSemaphore("p", holdfast.Permits(2)), s.c.NewUnleasedSemaphore("s", holdfast.Permits(1)), s.c.NewLatch("l")
		_, err := latch.TrySetCount(background, 1)
		kit.OK(s.T, err)
		var own heard
		hooks := holdfast.WithHooks(own.hooks())
		kit.OK(s.T, plain.Acquire(background, 1, hooks))
		kit.WantError(s.T, plain.Acquire(background, 1, hooks, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		kit.WantError(s.T, own.event("wait").Err, holdfast.ErrNoPermits)
		kit.WantError(s.T, latch.Await(background, hooks, holdfast.Wait(time.Second)), holdfast.ErrNotZero)
		own.want(s.T, "pass wait refuse wait refuse")
		l.want(s.T, "pass wait refuse wait refuse")
		h := s.Must(permits.Acquire(background, 2))
		kit.Fails(s.T, holdfast.ErrNoPermits)(permits.TryAcquire(background, 1))
		l.want(s.T, "acquire refuse")

		// They wait, and get what they wait for.
		next := kit.Waiting(s.T, permits, background)
		acquire := func() error { return plain.Acquire(background, 1) }
		first, second := kit.Aside(acquire), kit.Aside(func() error { return latch.Await(background) })
		l.wantNow(s.T, 3, 1)
		time.Sleep(time.Second)
		kit.OK(s.T, plain.Release(1), <-first)
		if e := l.event("pass"); e.Kind != "semaphore" || e.Waited != time.Second || !e.HadToWait {
			s.Errorf("%+v", e)
		}
		kit.OK(s.T, latch.CountDown(), <-second)
		if of, permit := l.event("pass").Kind, l.event("acquire").Kind; of != "latch" || permit != "permits" {
			s.Errorf("kinds %s and %s", of, permit)
		}
		l.wantNow(s.T, 1, 1)
		for _, id := range h.PermitIDs() { // lost
			kit.OK(s.T, s.other.NewPermitSemaphore("p").ReleasePermits(background, id))
		}
		<-next
		<-h.Context().Done()
		l.wantNow(s.T, 0, 1, holdfast.ErrLost)
		l.took()

		// A release that is not answered.
		kit.All(s.d, memdriver.Fault{LoseRequest: true})
		if plain.Release(1) == nil {
			s.Error("no error")
		}
		time.Sleep(5 * time.Second)
		s.d.SetFaults(nil)
		closed := kit.Aside(func() error { return plain.Acquire(background, 2) })
		l.wantNow(s.T, 1, 1)
		kit.OK(s.T, s.c.Close())
		kit.WantError(s.T, <-closed, holdfast.ErrClosed)
		l.wantNow(s.T, 0, 0, holdfast.ErrClosed)
		s.Do("DEL", "p", "s")
		time.Sleep(kit.CallsLive)
	}, holdfast.WithHooks(l.hooks()))
}

// Of several locks, the hooks of the call hear of the whole, and those of the clients of each part.
func TestHooksOfSeveral(t *testing.T) {
	for name, lock := range map[string]func(clients []*holdfast.Client) *holdfast.MultiLock{
		"multi": func(clients []*holdfast.Client) *holdfast.MultiLock {
			return holdfast.NewMultiLock(clients[0].NewMutex("x"), clients[1].NewMutex("y"))
		},
		"redlock": func(clients []*holdfast.Client) *holdfast.MultiLock {
			return holdfast.NewRedLock(clients[0].NewMutex("x"), clients[1].NewMutex("x"), clients[2].NewMutex("x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var parts, whole heard
				s := kit.Several(w, 3, holdfast.WithHooks(parts.hooks()))
				hooks := holdfast.WithHooks(whole.hooks())
				m, theirs := lock(s.Clients), lock(s.Again().Clients)
				h := kit.Must(t)(m.Lock(background, hooks))
				whole.want(t, "acquire")
				kit.Unlock(t, h)
				whole.want(t, "release end")

				// It waits, and starts over.
				h = kit.Must(t)(theirs.Lock(background))
				kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background, hooks))
				whole.want(t, "refuse")
				kit.Fails(t, holdfast.ErrLocked)(m.Lock(background, hooks, holdfast.Wait(5*time.Second)))
				whole.want(t, "wait refuse")
				next := kit.Waiting(t, m, background, hooks)
				time.Sleep(time.Second)
				whole.want(t, "wait")
				kit.Unlock(t, h)
				h = <-next
				whole.want(t, "acquire")
				if e := whole.event("acquire"); !e.HadToWait || e.Kind != name || parts.event("acquire").Kind != "mutex" || !h.Owner().IsZero() {
					t.Errorf("%+v of %v, and of a part %+v", e, h.Owner(), parts.event("acquire"))
				}
				whole.wantNow(t, 0, 1, nil)

				// Lost: enough of its parts are.
				for _, c := range s.Clients {
					_, err := c.NewMutex("x").ForceUnlock(background)
					kit.OK(t, err)
				}
				<-h.Context().Done()
				whole.wantNow(t, 0, 0, holdfast.ErrLost)
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				whole.want(t, "lost end")
				parts.wantNow(t, 0, 0)

				// Given back by Close, the first client's first.
				h = kit.Must(t)(m.Lock(background, hooks))
				time.Sleep(time.Second) // all servers have joined
				for _, c := range s.Clients {
					kit.OK(t, c.Close())
				}
				whole.wantNow(t, 0, 0, holdfast.ErrClosed)
				kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
				whole.want(t, "acquire end")
				parts.wantNow(t, 0, 0)
			})
		})
	}
}
