package test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// crowded is a server, and a client on it that fails the test if anything fails in
// the background. fill has the server refuse what needs memory.
type crowded struct {
	*platform

	server *redistest.Server
	c      *holdfast.Client
}

const shortLease = 2 * time.Second

func newCrowded(t *testing.T) *crowded {
	t.Helper()
	s := redistest.Start(t)
	p := goRedis("full", redis.UniversalOptions{Addrs: []string{s.Addr()}}, direct(t, s))
	c := p.client(t, holdfast.WithLease(shortLease), holdfast.WithHooks(holdfast.Hooks{
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
	forKinds(t, func(t *testing.T, k *kind) {
		p := newCrowded(t)
		name, forced := p.fresh(t, k), p.fresh(t, k)
		h, robbed := must(t)(k.lock(p.c, name).Lock(background)), must(t)(k.lock(p.c, forced).Lock(background))
		nested := h
		if k.nests {
			nested = must(t)(k.lock(p.c, name).Lock(h.Context()))
		}
		waiting, giveUp := context.WithCancel(background)
		gaveUp := make(chan error, 1)
		go func() {
			_, err := k.against(p.c, name).Lock(waiting)
			gaveUp <- err
		}()
		p.awaitWaiter(t, k, name)
		p.fill(t)
		lives(t, h)
		if k.nests {
			unlock(t, nested)
			p.wantCount(t, k, name, h.Owner(), 1)
		}
		giveUp()
		wantError(t, <-gaveUp, context.Canceled)
		unlock(t, h)
		if did, err := k.lock(p.c, forced).ForceUnlock(background); !did || err != nil {
			t.Errorf("force: %v, %v", did, err)
		}
		wantError(t, robbed.Unlock(), holdfast.ErrLost)
		for _, name := range []string{name, forced} {
			waitFor(t, "nothing to be left", func() bool {
				return len(k.left(p.do(t, name, "KEYS", "*"+name+"*"), name)) == 0
			})
		}
		_, err := k.lock(p.c, p.name).TryLock(background)
		wantFull(t, err)
	})
}

// L12: who stands in line when the memory gets full is granted the lock, and keeps it; only a token needs memory. Who comes later waits
// outside of the line, and is told why at the end.
func TestLineL12_MemoryFull(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		if !k.line || k.shared() {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			p := newCrowded(t)
			name := fresh()
			h := must(t)(k.lock(p.c, name).Lock(background))
			got := make(chan result, 1)
			stands := k.lock(p.client(t, holdfast.WithLease(shortLease)), name)
			go func() {
				h, err := stands.Lock(background)
				got <- result{h, err}
			}()
			p.awaitWaiter(t, k, name)
			p.fill(t)
			released := time.Now()
			unlock(t, h)
			if k.byMessage {
				in := <-got
				h = must(t)(in.hold, in.err)
				if took := time.Since(released); took > byMessage {
					t.Errorf("it was let in after %v", took)
				}
				lives(t, h)
				later := k.lock(p.client(t), name)
				_, err := later.Lock(background, holdfast.Wait(time.Second))
				wantError(t, err, holdfast.ErrLocked)
				if n := p.standing(t, name); n != 0 {
					t.Errorf("%d stand in line", n)
				}
				unlock(t, h)
				_, err = later.Lock(background, holdfast.Wait(time.Second))
				wantFull(t, err)
			}
			p.server.Cli(t, "CONFIG", "SET", "maxmemory", "0")
			if !k.byMessage {
				in := <-got
				unlock(t, must(t)(in.hold, in.err))
			}
			unlock(t, must(t)(k.lock(p.c, name).Lock(background)))
			p.wantNothing(t, k, name)
		})
	}
}

func TestMemoryFullPermits(t *testing.T) {
	t.Parallel()
	p := newCrowded(t)
	s := permitsOf(t, p.platform, "permits", 3)
	h := must(t)(p.c.NewPermitSemaphore("permits").Acquire(background, 2))
	forever := must(t)(s.TryAcquire(background, 1, holdfast.FixedLease(time.Hour)))
	p.fill(t)
	lives(t, h)
	ok(t, s.ExtendPermit(background, forever.PermitIDs()[0], 2*time.Hour))
	unlock(t, h)
	unlock(t, forever)
	if n, err := available(s); n != 3 || err != nil {
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
	ok(t, s.Acquire(background, 2))
	p.fill(t)
	wantFull(t, s.TryAcquire(background, 1)) // and what that may have done is undone
	ok(t, s.Release(2))
	if n, err := available(s); n != 3 || err != nil {
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
	ok(t, l.CountDown())
	ok(t, l.CountDown())
	ok(t, <-done)
	if did, err := other.Delete(background); !did || err != nil {
		t.Errorf("delete: %v, %v", did, err)
	}
}
