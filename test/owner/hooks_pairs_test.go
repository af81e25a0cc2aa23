package owner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// balance counts by hooks what begins and what ends.
type balance struct {
	mu             sync.Mutex
	waiting, holds map[string]int // by kind
	ends           []error        // of holds
}

func (b *balance) hooks() holdfast.HooksOption {
	b.waiting, b.holds = map[string]int{}, map[string]int{}
	over := func(_ context.Context, e holdfast.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if e.HadToWait {
			b.waiting[e.Kind]--
		}
	}
	return holdfast.WithHooks(holdfast.Hooks{
		OnWait: func(_ context.Context, e holdfast.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.waiting[e.Kind]++
		},
		OnAcquire: func(ctx context.Context, e holdfast.Event) {
			over(ctx, e)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.holds[e.Kind]++
		},
		OnPass: over, OnRefuse: over,
		OnEnd: func(_ context.Context, e holdfast.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.holds[e.Kind]--
			b.ends = append(b.ends, e.Err)
		},
	})
}

// want checks how many wait and hold now, over all kinds, of which none may be below zero.
func (b *balance) want(t *testing.T, waiting, holds int) {
	t.Helper()
	synctest.Wait() // the client's goroutines have told
	b.mu.Lock()
	defer b.mu.Unlock()
	if sum(b.waiting) != waiting || sum(b.holds) != holds {
		t.Errorf("waiting %v, held %v; want %d and %d", b.waiting, b.holds, waiting, holds)
	}
}

// sum adds up what is counted, of which none may be below zero.
func sum(counts map[string]int) (all int) {
	for n := range maps.Values(counts) {
		if n < 0 {
			return n
		}
		all += n
	}
	return all
}

// wantEnd checks how the holds have ended since the last call: each error matches; nil is nil.
func (b *balance) wantEnd(t *testing.T, targets ...error) {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	same := slices.EqualFunc(b.ends, targets, errors.Is)
	if !same {
		t.Errorf("ended by %v, want %v", b.ends, targets)
	}
	b.ends = nil
}

// However an acquire and a hold end, hooks are told of it, once.
func TestHooksArePaired(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		var b balance
		c, d := w.Client(b.hooks())
		other, _ := w.Client()
		lock := w.Lock(c)

		// Holds.
		h := kit.Must(t)(lock.Lock(background))
		b.want(t, 0, 1)
		if w.Kind.Nests {
			inner := kit.Must(t)(lock.Lock(h.Context()))
			b.want(t, 0, 2)
			kit.Unlock(t, inner)
			b.wantEnd(t, nil)
		}
		kit.Unlock(t, h)
		kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
		b.want(t, 0, 0)
		b.wantEnd(t, nil)
		for _, unlocked := range []bool{true, false} { // lost, and given back then or never
			h = kit.Must(t)(lock.Lock(background))
			_, err := lock.ForceUnlock(background)
			kit.OK(t, err)
			<-h.Context().Done()
			if unlocked {
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
			}
			b.want(t, 0, 0)
			b.wantEnd(t, holdfast.ErrLost)
		}
		h = kit.Must(t)(lock.Lock(background)) // Redis does not answer
		kit.Away(d)
		var backend *holdfast.BackendError
		if err := h.Unlock(); !errors.As(err, &backend) {
			t.Errorf("Unlock: %v", err)
		}
		d.SetFaults(nil)
		b.want(t, 0, 0)
		b.wantEnd(t, backend)
		time.Sleep(time.Minute)
		owner, err := kit.Must(t)(lock.Lock(background)).Detach()
		kit.OK(t, err)
		b.want(t, 0, 0)
		b.wantEnd(t, nil)
		h = kit.Must(t)(lock.Adopt(background, owner))
		b.want(t, 0, 1)
		kit.Unlock(t, h)
		b.wantEnd(t, nil)

		// Acquires.
		busy := kit.Must(t)(w.Rival(other).Lock(background))
		kit.Fails(t, holdfast.ErrLocked)(lock.TryLock(background))
		kit.Fails(t, holdfast.ErrLocked)(lock.Lock(background, holdfast.Wait(5*time.Second)))
		b.want(t, 0, 0)
		ctx, cancel := context.WithCancel(background)
		cancelled := kit.Waiting(t, lock, ctx)
		granted := kit.Waiting(t, lock, background)
		b.want(t, 2, 0)
		cancel()
		<-cancelled
		b.want(t, 1, 0)
		kit.Unlock(t, busy)
		h = <-granted
		b.want(t, 0, 1)

		// Close.
		closed := kit.Waiting(t, w.Rival(c), background)
		b.want(t, 1, 1)
		kit.OK(t, c.Close())
		<-closed
		b.want(t, 0, 0)
		b.wantEnd(t, holdfast.ErrClosed)
		kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		b.want(t, 0, 0)
		b.wantEnd(t)
	})
}

// So it is with holds that pass from one to the next, and that share.
func TestHooksArePairedInsideTheProcess(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var b balance
		c, _ := w.Client(b.hooks())
		x := c.NewMutex("x")
		h := kit.Must(t)(x.Lock(background))
		next, third := kit.Waiting(t, x, background), kit.Waiting(t, x, background)
		b.want(t, 2, 1)
		kit.Unlock(t, h)
		h = <-next
		b.want(t, 1, 1)
		_, err := x.ForceUnlock(background)
		kit.OK(t, err)
		time.Sleep(time.Minute) // lost, while one waits for it
		h2 := <-third
		b.want(t, 0, 1)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, h2)
		b.want(t, 0, 0)
		b.wantEnd(t, nil, holdfast.ErrLost, nil)

		reader := c.NewRWMutex("y").RLocker()
		var holds []*holdfast.Hold
		for range 3 {
			holds = append(holds, kit.Must(t)(reader.Lock(background)))
		}
		b.want(t, 0, 3)
		kit.Unlock(t, holds[0])
		b.want(t, 0, 2)
		_, err = reader.ForceUnlock(background)
		kit.OK(t, err)
		time.Sleep(time.Minute)
		b.want(t, 0, 0)
		kit.WantError(t, errors.Join(holds[1].Unlock(), holds[2].Unlock()), holdfast.ErrLost)
		b.want(t, 0, 0)
		b.wantEnd(t, nil, holdfast.ErrLost, holdfast.ErrLost)
		for range 3 {
			kit.Must(t)(reader.Lock(background))
		}
		kit.OK(t, c.Close())
		b.want(t, 0, 0)
		b.wantEnd(t, holdfast.ErrClosed, holdfast.ErrClosed, holdfast.ErrClosed)
	})
}

// So it is with permits, and with what has no holds.
func TestHooksOfPermitsArePaired(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var b balance
		c, _ := w.Client(b.hooks())
		other, _ := w.Client()
		permits := c.NewPermitSemaphore("x", holdfast.Permits(2))
		plain := c.NewUnleasedSemaphore("y", holdfast.Permits(1))
		latch := c.NewLatch("z")
		_, err := latch.TrySetCount(background, 1)
		kit.OK(t, err, plain.Acquire(background, 1))
		h := kit.Must(t)(permits.Acquire(background, 2))
		b.want(t, 0, 1)
		kit.Fails(t, holdfast.ErrNoPermits)(permits.TryAcquire(background, 1))
		kit.WantError(t, plain.Acquire(background, 1, holdfast.Wait(time.Second)), holdfast.ErrNoPermits)
		kit.WantError(t, latch.Await(background, holdfast.Wait(time.Second)), holdfast.ErrNotZero)
		b.want(t, 0, 1)
		next := kit.Waiting(t, permits, background)
		ended := make(chan error, 2)
		go func() { ended <- plain.Acquire(background, 1) }()
		go func() { ended <- latch.Await(background) }()
		b.want(t, 3, 1)
		kit.OK(t, plain.Release(1), latch.CountDown(), <-ended, <-ended)
		b.want(t, 1, 1)
		for _, id := range h.PermitIDs() { // lost
			kit.OK(t, other.NewPermitSemaphore("x").ReleasePermits(background, id))
		}
		<-next
		<-h.Context().Done()
		b.want(t, 0, 1)
		b.wantEnd(t, holdfast.ErrLost)
		go func() { ended <- plain.Acquire(background, 1) }()
		b.want(t, 1, 1)
		kit.OK(t, c.Close())
		kit.WantError(t, <-ended, holdfast.ErrClosed)
		b.want(t, 0, 0)
		b.wantEnd(t, holdfast.ErrClosed)
		for _, name := range []string{"x", "y"} {
			w.Do("DEL", name)
		}
		time.Sleep(kit.CallsLive)
	})
}

// So it is with several locks, of which the hooks of the call are told as of one.
func TestHooksOfSeveralArePaired(t *testing.T) {
	makers := map[string]func(clients []*holdfast.Client) *holdfast.MultiLock{
		"multi": func(clients []*holdfast.Client) *holdfast.MultiLock {
			return holdfast.NewMultiLock(clients[0].NewMutex("x"), clients[1].NewMutex("y"))
		},
		"redlock": func(clients []*holdfast.Client) *holdfast.MultiLock {
			return holdfast.NewRedLock(clients[0].NewMutex("x"), clients[1].NewMutex("x"), clients[2].NewMutex("x"))
		},
	}
	for name, lock := range makers {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				var parts, whole balance
				s := kit.Several(w, 3, parts.hooks())
				hooks := whole.hooks()
				m := lock(s.Clients)
				want := func(waiting, holds int) {
					t.Helper()
					whole.want(t, waiting, holds)
				}
				h := kit.Must(t)(m.Lock(background, hooks))
				want(0, 1)
				kit.Unlock(t, h)
				want(0, 0)
				whole.wantEnd(t, nil)

				// It waits, and starts over.
				h = kit.Must(t)(lock(s.Again().Clients).Lock(background))
				_, err := m.Lock(background, hooks, holdfast.Wait(5*time.Second))
				kit.WantError(t, err, holdfast.ErrLocked)
				next := kit.Waiting(t, m, background, hooks)
				time.Sleep(time.Second)
				want(1, 0)
				kit.Unlock(t, h)
				h = <-next
				want(0, 1)

				// Lost: enough of its parts are.
				for _, c := range s.Clients {
					_, err := c.NewMutex("x").ForceUnlock(background)
					kit.OK(t, err)
				}
				<-h.Context().Done()
				want(0, 0)
				whole.wantEnd(t, holdfast.ErrLost)
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				want(0, 0)
				parts.want(t, 0, 0)

				// Given back by Close, the first client's first.
				h = kit.Must(t)(m.Lock(background, hooks))
				time.Sleep(time.Second) // all servers have joined
				for _, c := range s.Clients {
					kit.OK(t, c.Close())
				}
				want(0, 0)
				whole.wantEnd(t, holdfast.ErrClosed)
				kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
				want(0, 0)
				whole.wantEnd(t)
				parts.want(t, 0, 0)
			})
		})
	}
}
