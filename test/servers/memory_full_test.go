package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// crowded is a server, and a client on it that fails the test if anything fails in
// the background. fill has the server refuse what needs memory.
type crowded struct {
	*kit.Platform

	server *redistest.Server
	c      *holdfast.Client
}

const shortLease = 2 * time.Second

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	s := redistest.Start(t)
	p := kit.GoRedis("full", redis.UniversalOptions{Addrs: []string{s.Addr()}}, kit.Direct(t, s))
	c := p.Client(t, holdfast.WithLease(shortLease), holdfast.WithHooks(holdfast.Hooks{
		OnError: func(_ context.Context, e holdfast.Event) { t.Errorf("in the background: %v", e.Err) },
	}))
	return &crowded{p, s, c}
}

func (p *crowded) fill(t *testing.T) {
	t.Helper()
	p.server.Cli(t, "CONFIG", "SET", "maxmemory", "1")
	rdb := redis.NewClient(&redis.Options{Addr: p.server.Addr()})
	defer rdb.Close()
	if err := rdb.Set(background, "any", "value", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("the memory is not full: %v", err)
	}
}

// lives fails if the hold does not outlive several leases.
func lives(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	select {
	case <-h.Context().Done():
		t.Fatalf("lost: %v", context.Cause(h.Context()))
	case <-time.After(3 * shortLease):
	}
}

// wantFull checks that what needs memory was refused.
func wantFull(t *testing.T, err error) {
	t.Helper()
	var refused *holdfast.BackendError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("with a full memory: %v", err)
	}
}

// A server whose memory is full refuses what needs more. What is held lives on all
// the same, and can be given back, by whoever may.
func TestMemoryFull(t *testing.T) {
	t.Parallel()
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		p := newCrowded(t)
		name, forced := p.Fresh(t, k), p.Fresh(t, k)
		h, robbed := kit.Must(t)(k.Lock(p.c, name).Lock(background)), kit.Must(t)(k.Lock(p.c, forced).Lock(background))
		nested := h
		if k.Nests {
			nested = kit.Must(t)(k.Lock(p.c, name).Lock(h.Context()))
		}
		waiting, giveUp := context.WithCancel(background)
		gaveUp := make(chan error, 1)
		go func() {
			_, err := k.Against(p.c, name).Lock(waiting)
			gaveUp <- err
		}()
		p.AwaitWaiter(t, k, name)
		p.fill(t)
		lives(t, h)
		if k.Nests {
			kit.Unlock(t, nested)
			p.WantCount(t, k, name, h.Owner(), 1)
		}
		giveUp()
		kit.WantError(t, <-gaveUp, context.Canceled)
		kit.Unlock(t, h)
		if did, err := k.Lock(p.c, forced).ForceUnlock(background); !did || err != nil {
			t.Errorf("force: %v, %v", did, err)
		}
		kit.WantError(t, robbed.Unlock(), holdfast.ErrLost)
		for _, name := range []string{name, forced} {
			kit.WaitFor(t, "nothing to be left", func() bool {
				return len(k.Left(p.Do(t, name, "KEYS", "*"+name+"*"), name)) == 0
			})
		}
		_, err := k.Lock(p.c, p.Name).TryLock(background)
		wantFull(t, err)
	})
}

// L12: who stands in line when the memory gets full is granted the lock, and keeps it; only a token needs memory. Who comes later waits
// outside of the line, and is told why at the end.
func TestLineL12_MemoryFull(t *testing.T) {
	t.Parallel()
	for _, k := range kit.Kinds {
		if !k.Line || k.Shared() {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			p := newCrowded(t)
			name := kit.Fresh()
			h := kit.Must(t)(k.Lock(p.c, name).Lock(background))
			got := make(chan kit.Result, 1)
			stands := k.Lock(p.Client(t, holdfast.WithLease(shortLease)), name)
			go func() {
				h, err := stands.Lock(background)
				got <- kit.Result{Hold: h, Err: err}
			}()
			p.AwaitWaiter(t, k, name)
			p.fill(t)
			released := time.Now()
			kit.Unlock(t, h)
			if k.ByMessage {
				in := <-got
				h = kit.Must(t)(in.Hold, in.Err)
				if took := time.Since(released); took > kit.ByMessage {
					t.Errorf("it was let in after %v", took)
				}
				lives(t, h)
				later := k.Lock(p.Client(t), name)
				_, err := later.Lock(background, holdfast.Wait(time.Second))
				kit.WantError(t, err, holdfast.ErrLocked)
				if n := p.Standing(t, name); n != 0 {
					t.Errorf("%d stand in line", n)
				}
				kit.Unlock(t, h)
				_, err = later.Lock(background, holdfast.Wait(time.Second))
				wantFull(t, err)
			}
			p.server.Cli(t, "CONFIG", "SET", "maxmemory", "0")
			if !k.ByMessage {
				in := <-got
				kit.Unlock(t, kit.Must(t)(in.Hold, in.Err))
			}
			kit.Unlock(t, kit.Must(t)(k.Lock(p.c, name).Lock(background)))
			p.WantNothing(t, k, name)
		})
	}
}

func TestMemoryFullPermits(t *testing.T) {
	t.Parallel()
	p := newCrowded(t)
	s := permitsOf(t, p.Platform, "permits", 3)
	h := kit.Must(t)(p.c.NewPermitSemaphore("permits").Acquire(background, 2))
	forever := kit.Must(t)(s.TryAcquire(background, 1, holdfast.FixedLease(time.Hour)))
	p.fill(t)
	lives(t, h)
	kit.OK(t, s.ExtendPermit(background, forever.PermitIDs()[0], 2*time.Hour))
	kit.Unlock(t, h)
	kit.Unlock(t, forever)
	if n, err := kit.Available(s); n != 3 || err != nil {
		t.Errorf("%d permits are available, %v", n, err)
	}
	_, err := s.TryAcquire(background, 1)
	wantFull(t, err)
}

func TestMemoryFullSemaphore(t *testing.T) {
	t.Parallel()
	p := newCrowded(t)
	s := p.c.NewUnleasedSemaphore("semaphore")
	if made, err := s.TrySetPermits(background, 3); !made || err != nil {
		t.Fatal(made, err)
	}
	kit.OK(t, s.Acquire(background, 2))
	p.fill(t)
	wantFull(t, s.TryAcquire(background, 1)) // and what that may have done is undone
	kit.OK(t, s.Release(2))
	if n, err := kit.Available(s); n != 3 || err != nil {
		t.Errorf("%d permits are available, %v", n, err)
	}
}

func TestMemoryFullLatch(t *testing.T) {
	t.Parallel()
	p := newCrowded(t)
	l, other := p.c.NewLatch("latch"), p.c.NewLatch("other")
	if made, err := l.TrySetCount(background, 2); !made || err != nil {
		t.Fatal(made, err)
	}
	if made, err := other.TrySetCount(background, 2); !made || err != nil {
		t.Fatal(made, err)
	}
	p.fill(t)
	done := make(chan error, 1)
	go func() { done <- l.Await(background) }()
	kit.OK(t, l.CountDown())
	kit.OK(t, l.CountDown())
	kit.OK(t, <-done)
	if did, err := other.Delete(background); !did || err != nil {
		t.Errorf("delete: %v, %v", did, err)
	}
}
