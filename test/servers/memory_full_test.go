package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// crowded is a server, and a client on it that fails the test if anything fails in
// the background, but for waiters who are told why they wait on. fill has the server refuse what needs memory.
type crowded struct {
	*kit.Platform

	server *redistest.Server
	c      *holdfast.Client
}

const shortLease = 8 * time.Second

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	s, p, _ := started(t)
	c := p.Client(t, holdfast.WithLease(shortLease), holdfast.WithHooks(holdfast.Hooks{
		OnError: func(_ context.Context, e holdfast.Event) {
			if !strings.Contains(e.Err.Error(), "OOM") {
				t.Errorf("in the background: %v", e.Err)
			}
		},
	}))
	return &crowded{p, s, c}
}

func (p *crowded) fill(t *testing.T) {
	t.Helper()
	p.server.Cli(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := p.server.Ask(time.Minute, "SET", "any", "value"); !strings.Contains(fmt.Sprint(err), "OOM") {
		t.Fatalf("the memory is not full: %v", err)
	}
}

// lives fails if the hold does not outlive its lease.
func lives(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	select {
	case <-h.Context().Done():
		t.Fatalf("lost: %v", context.Cause(h.Context()))
	case <-time.After(shortLease + time.Second):
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
		name, forced := kit.Fresh(), kit.Fresh()
		h, robbed := kit.Must(t)(k.Lock(p.c, name).Lock(background)), kit.Must(t)(k.Lock(p.c, forced).Lock(background))
		nested := h
		if k.Nests() {
			nested = kit.Must(t)(k.Lock(p.c, name).Lock(h.Context()))
		}
		waiting, giveUp := context.WithCancel(background)
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- kit.ErrOf(k.Against(p.c, name).Lock(waiting)) }()
		p.AwaitWaiter(t, k, name)
		p.fill(t)
		lives(t, h)
		if k.Nests() {
			kit.Unlock(t, nested)
			p.WantCount(t, k, name, h.Owner(), 1)
		}
		giveUp()
		kit.WantError(t, <-gaveUp, context.Canceled)
		kit.Unlock(t, h)
		kit.WantDid(t, true)(k.Lock(p.c, forced).ForceUnlock(background))
		kit.WantError(t, robbed.Unlock(), holdfast.ErrLost)
		nothingLeft(t, p.Platform, k, name)
		nothingLeft(t, p.Platform, k, forced)
		wantFull(t, kit.ErrOf(k.Lock(p.c, p.Name).TryLock(background)))
	})
}

// R12: who stands in line when the memory gets full is granted the lock, and keeps it; only a token needs memory. Who comes later waits
// outside of the line, and is told why at the end.
func TestLineR12_MemoryFull(t *testing.T) {
	t.Parallel()
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		if !k.Listed() || k.Shared {
			return
		}
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
		kit.Unlock(t, h)
		if k.ByMessage() {
			one := <-got
			h = kit.Must(t)(one.Hold, one.Err)
			lives(t, h)
			later := k.Lock(p.Client(t), name)
			kit.WantError(t, kit.ErrOf(later.Lock(background, holdfast.Wait(5*time.Second))), holdfast.ErrLocked)
			if n := p.Standing(t, name); n != 0 {
				t.Errorf("%d stand in line", n)
			}
			kit.Unlock(t, h)
			wantFull(t, kit.ErrOf(later.Lock(background, holdfast.Wait(5*time.Second))))
			return
		}
		p.server.Cli(t, "CONFIG", "SET", "maxmemory", "0")
		one := <-got
		kit.Unlock(t, kit.Must(t)(one.Hold, one.Err))
		p.WantNothing(t, k, name)
	})
}

// So it is with semaphores and latches.
func TestMemoryFullObjects(t *testing.T) {
	t.Parallel()
	p := newCrowded(t)
	permits, semaphore := p.Client(t).NewPermitSemaphore("permits", holdfast.Permits(3)), p.c.NewUnleasedSemaphore("semaphore")
	latch, other := p.c.NewLatch("latch"), p.c.NewLatch("other")
	kit.WantDid(t, true)(semaphore.TrySetPermits(background, 3))
	kit.WantDid(t, true)(latch.TrySetCount(background, 1))
	kit.WantDid(t, true)(other.TrySetCount(background, 2))
	kit.OK(t, semaphore.Acquire(background, 2))
	forever := kit.Must(t)(permits.TryAcquire(background, 1, holdfast.FixedLease(time.Hour)))
	h := kit.Must(t)(p.c.NewPermitSemaphore("permits").Acquire(background, 2))
	p.fill(t)
	done := make(chan error, 1)
	go func() { done <- latch.Await(background) }()
	lives(t, h)
	kit.OK(t, permits.ExtendPermit(background, forever.PermitIDs()[0], 2*time.Hour))
	kit.Unlock(t, h)
	kit.Unlock(t, forever)
	kit.OK(t, wantFree(permits, 3))
	wantFull(t, kit.ErrOf(permits.TryAcquire(background, 1)))
	wantFull(t, semaphore.TryAcquire(background, 1)) // and what that may have done is undone
	kit.OK(t, semaphore.Release(2), wantFree(semaphore, 3), latch.CountDown(), <-done)
	kit.WantDid(t, true)(other.Delete(background))
}
