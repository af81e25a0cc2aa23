package servers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The conformance suite: what the articles about Redisson's RLock describe, and
// what holdfast adds, for every kind, on every driver, in real time.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := map[string]func(*testing.T, *kit.Platform, *kit.Kind){
		"P1_LockAndUnlock":  lockAndUnlock,
		"Reentrancy":        reentrancy,
		"FixedLease":        fixedLease,
		"TryLock":           tryLock,
		"WaitAndLease":      waitAndLease,
		"ForceUnlock":       forceUnlock,
		"Questions":         questions,
		"Watchdog":          watchdogRenews,
		"HandOver":          handOver,
		"HoldsDoNotOverlap": holdsDoNotOverlap,
		"CloseGivesBack":    closeGivesBack,
		"Transfer":          transfer,
	}
	platforms := kit.Standalone(t)
	kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
		for _, p := range platforms {
			for name, test := range suite {
				t.Run(p.Name+"/"+name, func(t *testing.T) {
					t.Parallel()
					test(t, p, k)
				})
			}
		}
	})
}

// P1: an unlock leaves nothing but the message. Only the holder can unlock, and only once.
func lockAndUnlock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, stranger, name := p.Client(t), p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	p.WantCount(t, k, name, h.Owner(), 1)
	if d := time.Until(h.Deadline()); d > 30*time.Second || d < 20*time.Second || h.Name() != name {
		t.Errorf("%q, deadline in %v", h.Name(), d)
	}
	_, err := k.Lock(stranger, name).Adopt(background, stranger.NewOwner())
	kit.WantError(t, err, holdfast.ErrNotHeld)
	kit.Unlock(t, h)
	if !h.Deadline().IsZero() {
		t.Errorf("deadline %v after Unlock", h.Deadline())
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
	for range 10 {
		kit.Unlock(t, kit.Must(t)(k.Lock(c, name).Lock(background)))
	}
	p.WantNothing(t, k, name)
}

func reentrancy(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	mu := k.Lock(c, name)
	outer := kit.Must(t)(mu.Lock(background))
	if k.Nests {
		inner := kit.Must(t)(k.Lock(c, name).Lock(outer.Context()))
		third := kit.Must(t)(mu.TryLock(inner.Context()))
		p.WantCount(t, k, name, outer.Owner(), 3)
		kit.Unlock(t, third)
		kit.Unlock(t, inner)
	} else {
		for _, c := range []*holdfast.Client{c, p.Client(t)} { // here, or in another process
			_, err := k.Lock(c, name).TryLock(outer.Context())
			if !errors.Is(err, holdfast.ErrReentrant) && !errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("a second hold: %v", err)
			}
		}
	}
	_, err := k.Against(c, name).TryLock(background) // another goroutine's call
	kit.WantError(t, err, holdfast.ErrLocked)
	p.WantCount(t, k, name, outer.Owner(), 1)
	kit.Unlock(t, outer)
	p.WantNothing(t, k, name)
}

func fixedLease(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background, holdfast.FixedLease(2*time.Second)))
	next := kit.Must(t)(k.Against(p.Client(t), name).Lock(background))
	if granted := time.Now(); h.Deadline().After(granted) {
		t.Errorf("another had it %v before the deadline", h.Deadline().Sub(granted))
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost) // also if this process was too busy to say so
	kit.WantError(t, context.Cause(h.Context()), holdfast.ErrLost)
	kit.Unlock(t, next)
}

func tryLock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).TryLock(background))
	_, err := k.Against(p.Client(t), name).TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("TryLock of a held lock: %v", err)
	}
	if k.Anonymous != locked.Holder.IsZero() || !k.Anonymous && locked.Holder != h.Owner() {
		t.Errorf("held by %q, told of %q", h.Owner(), locked.Holder)
	}
	if locked.Name != name || locked.TTL > 30*time.Second || locked.TTL < 20*time.Second {
		t.Errorf("%+v", locked)
	}
	kit.Unlock(t, h)
	kit.Unlock(t, kit.Must(t)(k.Lock(c, name).TryLock(background, holdfast.FixedLease(time.Minute))))
}

func waitAndLease(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name, lease := p.Client(t), p.Fresh(t, k), holdfast.FixedLease(time.Minute)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	for _, wait := range []time.Duration{2 * time.Second, 0} {
		_, err := k.Against(p.Client(t), name).Lock(background, holdfast.Wait(wait), lease)
		kit.WantError(t, err, holdfast.ErrLocked)
	}
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := k.Against(p.Client(t), name).Lock(ctx)
	kit.WantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up is told as being refused: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { kit.Unlock(t, h) })
	second := kit.Must(t)(k.Against(p.Client(t), name).Lock(background, holdfast.Wait(30*time.Second), lease))
	if d := time.Until(second.Deadline()); d > time.Minute || d < 50*time.Second {
		t.Errorf("deadline in %v", d)
	}
	kit.Unlock(t, second)
}

// A forced unlock lets in who waits. One that names owners does not hit another one.
func forceUnlock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	operator := k.Lock(p.Client(t), name)
	wantDid(t, false)(operator.ForceUnlock(background, c.NewOwner()))
	p.WantCount(t, k, name, h.Owner(), 1)
	waiter := make(chan *holdfast.Hold)
	go func() {
		next, err := k.Against(p.Client(t), name).Lock(background)
		if err != nil {
			t.Error(err)
		}
		waiter <- next
	}()
	wantDid(t, true)(operator.ForceUnlock(background, c.NewOwner(), h.Owner()))
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
	kit.Unlock(t, <-waiter)
	wantDid(t, false)(operator.ForceUnlock(background))
	h = kit.Must(t)(k.Lock(c, name).Lock(background))
	wantDid(t, true)(operator.ForceUnlock(background))
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

func questions(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	mu, asker := k.Lock(c, name), k.Lock(p.Client(t), name)
	check := func(owner holdfast.Owner, count int) {
		t.Helper()
		found, err := asker.Inspect(background)
		held := count > 0
		if err != nil || found.Name != name || found.Locked() != held || found.HeldBy(owner) != held ||
			found.Count(owner) != count || found.Count(c.NewOwner()) != 0 || found.TTL > 0 != held {
			t.Errorf("%+v, %v: want count %d of %v", found, err, count, owner)
		}
		for i, h := range found.Holders { // before 7.2, time goes on between two times to live that a script reads
			if i > 0 || h.Owner != owner || h.Count != count || h.TTL <= 0 || h.TTL > found.TTL+time.Second || h.Mode != k.Mode {
				t.Errorf("holder %d is %+v", i, h)
			}
		}
	}
	check(c.NewOwner(), 0)
	outer := kit.Must(t)(mu.Lock(background))
	check(outer.Owner(), 1)
	if k.Nests {
		inner := kit.Must(t)(mu.Lock(outer.Context()))
		check(outer.Owner(), 2)
		kit.Unlock(t, inner)
		check(outer.Owner(), 1)
	}
	kit.Unlock(t, outer)
	check(outer.Owner(), 0)
}

// The lock is not free when the lease that it was acquired with is long over.
func watchdogRenews(t *testing.T, p *kit.Platform, k *kit.Kind) {
	name := p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(p.Client(t, holdfast.WithLease(6*time.Second)), name).Lock(background))
	_, err := k.Against(p.Client(t), name).Lock(background, holdfast.Wait(9*time.Second))
	kit.WantError(t, err, holdfast.ErrLocked)
	if h.Context().Err() != nil {
		t.Errorf("lost although renewed: %v", context.Cause(h.Context()))
	}
	kit.Unlock(t, h)
}

func handOver(t *testing.T, p *kit.Platform, k *kit.Kind) {
	a, b, name := p.Client(t), p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(a, name).Lock(background))
	got := make(chan error)
	go func() {
		next, err := k.Against(b, name).Lock(background)
		if err == nil {
			err = next.Unlock()
		}
		got <- err
	}()
	p.AwaitWaiter(t, k, name)
	kit.Unlock(t, h)
	kit.OK(t, <-got)
	kit.WaitFor(t, "the subscription's end", func() bool { return !p.Listens(t, name) })
}

// holdsDoNotOverlap has several clients contend, and looks at the times of their
// holds, not at a count.
func holdsDoNotOverlap(t *testing.T, p *kit.Platform, k *kit.Kind) {
	var mu sync.Mutex
	var spans []kit.Span
	var wg sync.WaitGroup
	name := p.Fresh(t, k)
	for client := range 4 {
		c := p.Client(t)
		for i := range 4 {
			wg.Go(func() {
				l, shared := k.Contender(c, name, i)
				work := 200 * time.Microsecond
				if shared {
					work = 5 * time.Millisecond // long enough for others to come in, on a slow driver, too
				}
				for range 10 {
					h, err := l.Lock(background)
					if err != nil {
						t.Error(err)
						return
					}
					s := kit.Span{Who: client, Shared: shared, From: kit.Now()}
					time.Sleep(work)
					s.To = kit.Now()
					kit.Unlock(t, h)
					mu.Lock()
					spans = append(spans, s)
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if len(spans) != 160 {
		t.Fatalf("%d holds", len(spans))
	}
	kit.CheckSpans(t, k, spans)
	p.WantNothing(t, k, name)
}

func closeGivesBack(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	kit.OK(t, c.Close())
	kit.WantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
	kit.Unlock(t, kit.Must(t)(k.Against(p.Client(t), name).TryLock(background)))
}

// A hold passes from one process to another, and the lock stays held.
func transfer(t *testing.T, p *kit.Platform, k *kit.Kind) {
	a, b, name := p.Client(t), p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(a, name).Lock(background))
	owner, err := h.Detach()
	kit.OK(t, err)
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
	_, err = k.Against(b, name).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	adopted := kit.Must(t)(k.Lock(b, name).Adopt(background, owner))
	kit.OK(t, adopted.Extend(background, time.Minute))
	p.WantCount(t, k, name, adopted.Owner(), 1)
	kit.Unlock(t, adopted)
	p.WantNothing(t, k, name)
}
