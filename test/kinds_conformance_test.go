package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The conformance suite: what the articles about Redisson's RLock describe, and
// what holdfast adds, for every kind, on every driver, in real time.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := map[string]func(*testing.T, *platform, *kind){
		"LockAndUnlock":        lockAndUnlock,
		"Reentrancy":           reentrancy,
		"FixedLease":           fixedLease,
		"TryLock":              tryLock,
		"WaitAndLease":         waitAndLease,
		"CancelledWait":        cancelledWait,
		"StrangerCannotUnlock": strangerCannotUnlock,
		"ForceUnlock":          forceUnlock,
		"Questions":            questions,
		"Watchdog":             watchdogRenews,
		"DoAndCallbacks":       doAndCallbacks,
		"SyncLocker":           syncLocker,
		"HandOver":             handOver,
		"HoldsDoNotOverlap":    holdsDoNotOverlap,
		"CloseGivesBack":       closeGivesBack,
		"P1_UnlockLeavesNoKey": unlockLeavesNoKey,
	}
	platforms := standalone(t)
	forKinds(t, func(t *testing.T, k *kind) {
		for _, p := range platforms {
			for name, test := range suite {
				t.Run(p.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					test(t, p, k)
				})
			}
		}
	})
}

// names gives every test a lock of its own.
var names atomic.Int64

func fresh() string { return fmt.Sprintf("lock:%06d", names.Add(1)) } // none is part of another

func lockAndUnlock(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	p.wantCount(t, k, name, h.Owner(), 1)
	if d := time.Until(h.Deadline()); d > 30*time.Second || d < 25*time.Second {
		t.Errorf("deadline in %v", d)
	}
	if h.Name() != name {
		t.Errorf("name %q", h.Name())
	}
	unlock(t, h)
	p.wantCount(t, k, name, h.Owner(), 0)
	if !h.Deadline().IsZero() {
		t.Errorf("deadline %v after Unlock", h.Deadline())
	}
}

func reentrancy(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	mu := k.lock(c, name)
	outer := must(t)(mu.Lock(background))
	if !k.nests {
		notTwice(t, p, k, outer)
		return
	}
	inner := must(t)(k.lock(c, name).Lock(outer.Context()))
	third := must(t)(mu.TryLock(inner.Context()))
	p.wantCount(t, k, name, outer.Owner(), 3)
	if inner.Owner() != outer.Owner() {
		t.Errorf("owners %v and %v", inner.Owner(), outer.Owner())
	}
	_, err := k.against(c, name).TryLock(background) // another goroutine's call
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, third)
	unlock(t, inner)
	p.wantCount(t, k, name, outer.Owner(), 1)
	unlock(t, outer)
	p.wantNothing(t, k, name)
}

// notTwice checks that an owner cannot have the lock a second time, here or in
// another process.
func notTwice(t *testing.T, p *platform, k *kind, h *holdfast.Hold) {
	t.Helper()
	for _, c := range []*holdfast.Client{p.client(t), p.client(t)} {
		_, err := k.lock(c, h.Name()).TryLock(h.Context())
		if !errors.Is(err, holdfast.ErrReentrant) && !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("a second hold: %v", err)
		}
	}
	p.wantCount(t, k, h.Name(), h.Owner(), 1)
	unlock(t, h)
	p.wantNothing(t, k, h.Name())
}

func fixedLease(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	const lease = 2 * time.Second // a busy machine may take a good part of it to answer
	start := time.Now()
	h := must(t)(k.lock(c, name).Lock(background, holdfast.FixedLease(lease)))
	next := must(t)(k.against(p.client(t), name).Lock(background))
	if took := time.Since(start); took < lease {
		t.Errorf("the next owner got it after %v", took)
	}
	if granted := time.Now(); h.Deadline().After(granted) {
		t.Errorf("another had it %v before the deadline", h.Deadline().Sub(granted))
	}
	wantError(t, h.Unlock(), holdfast.ErrLost) // also if this process was too busy to say so
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("cause %v when another had it", cause)
	}
	unlock(t, next)
}

func tryLock(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).TryLock(background))
	_, err := k.against(p.client(t), name).TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("TryLock of a held lock: %v", err)
	}
	if k.anonymous != locked.Holder.IsZero() || !k.anonymous && locked.Holder != h.Owner() {
		t.Errorf("held by %q, told of %q", h.Owner(), locked.Holder)
	}
	if locked.Name != name || locked.TTL > 30*time.Second || locked.TTL < 25*time.Second {
		t.Errorf("%+v", locked)
	}
	unlock(t, h)
	unlock(t, must(t)(k.lock(c, name).TryLock(background, holdfast.FixedLease(time.Minute))))
}

func waitAndLease(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	start := time.Now()
	_, err := k.against(p.client(t), name).Lock(background, holdfast.Wait(2*time.Second), holdfast.FixedLease(time.Minute))
	wantError(t, err, holdfast.ErrLocked)
	if took := time.Since(start); took < 2*time.Second || took > 5*time.Second {
		t.Errorf("gave up after %v", took)
	}
	_, err = k.against(c, name).Lock(background, holdfast.Wait(0))
	wantError(t, err, holdfast.ErrLocked)
	time.AfterFunc(50*time.Millisecond, func() { unlock(t, h) })
	second := must(t)(k.against(p.client(t), name).Lock(background, holdfast.Wait(10*time.Second), holdfast.FixedLease(time.Minute)))
	if d := time.Until(second.Deadline()); d > time.Minute || d < 58*time.Second {
		t.Errorf("deadline in %v", d)
	}
	unlock(t, second)
}

func cancelledWait(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := k.against(p.client(t), name).Lock(ctx)
	wantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up is told as being refused: %v", err)
	}
	unlock(t, h)
}

func strangerCannotUnlock(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	stranger := p.client(t)
	_, err := k.lock(stranger, name).Adopt(background, stranger.NewOwner())
	wantError(t, err, holdfast.ErrNotHeld)
	unlock(t, h)
	wantError(t, h.Unlock(), holdfast.ErrNotHeld)
}

func forceUnlock(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	waiter := make(chan *holdfast.Hold)
	go func() {
		next, err := k.against(p.client(t), name).Lock(background)
		if err != nil {
			t.Error(err)
		}
		waiter <- next
	}()
	operator := k.lock(p.client(t), name)
	was, err := operator.ForceUnlock(background)
	if err != nil || !was {
		t.Fatalf("ForceUnlock: %v, %v", was, err)
	}
	unlock(t, <-waiter)
	was, err = operator.ForceUnlock(background)
	if err != nil || was {
		t.Errorf("ForceUnlock of a free lock: %v, %v", was, err)
	}
	wantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

func questions(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	mu, asker := k.lock(c, name), k.lock(p.client(t), name)
	check := func(owner holdfast.Owner, count int) {
		t.Helper()
		found, err := asker.Inspect(background)
		if err != nil {
			t.Fatal(err)
		}
		held := count > 0
		if found.Locked() != held || found.HeldBy(owner) != held || found.Count(owner) != count || found.TTL > 0 != held {
			t.Errorf("%+v: want count %d of %v", found, count, owner)
		}
		for i, h := range found.Holders { // before 7.2, time goes on between two times to live that a script reads
			if i > 0 || h.Owner != owner || h.Count != count || h.TTL <= 0 || h.TTL > found.TTL+time.Second || h.Mode != k.mode {
				t.Errorf("holder %d is %+v", i, h)
			}
		}
		if found.Name != name {
			t.Errorf("the name is %q", found.Name)
		}
	}
	check(c.NewOwner(), 0)
	outer := must(t)(mu.Lock(background))
	check(outer.Owner(), 1)
	if k.nests {
		inner := must(t)(mu.Lock(outer.Context()))
		check(outer.Owner(), 2)
		unlock(t, inner)
		check(outer.Owner(), 1)
	}
	if n, err := holdCount(asker, c.NewOwner()); n > 0 || err != nil {
		t.Errorf("HeldBy a stranger: %v, %v", n, err)
	}
	unlock(t, outer)
	check(outer.Owner(), 0)
}

func watchdogRenews(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t, holdfast.WithLease(6*time.Second)), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	ended := make(chan struct{})
	go func() { // the lock is not free when the lease that it was acquired with is long over
		defer close(ended)
		_, err := k.against(p.client(t), name).Lock(background, holdfast.Wait(9*time.Second))
		wantError(t, err, holdfast.ErrLocked)
	}()
	<-ended
	if err := h.Context().Err(); err != nil {
		t.Errorf("lost although renewed: %v", context.Cause(h.Context()))
	}
	unlock(t, h)
}

func doAndCallbacks(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	var seen []string
	note := func(what string) func(context.Context, holdfast.Event) {
		return func(_ context.Context, e holdfast.Event) { seen = append(seen, what+" "+e.Name) }
	}
	failure := errors.New("failed inside")
	err := holdfast.Do(background, k.lock(c, name), func(ctx context.Context, _ *holdfast.Hold) error {
		owner, ok := holdfast.OwnerFrom(ctx, k.lock(c, name))
		found, err := k.lock(c, name).Inspect(ctx)
		seen = append(seen, fmt.Sprint("inside ", ok, found.HeldBy(owner), err))
		return failure
	}, holdfast.WithHooks(holdfast.Hooks{OnAcquire: note("acquired"), OnRelease: note("released")}))
	wantError(t, err, failure)
	want := []string{"acquired " + name, "inside true true <nil>", "released " + name}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	func() {
		defer func() { _ = recover() }()
		_ = holdfast.Do(background, k.lock(c, name), func(context.Context, *holdfast.Hold) error { panic("inside") })
	}()
	if locked, err := isLocked(k.lock(c, name)); locked || err != nil {
		t.Errorf("after a panic: locked %v, %v", locked, err)
	}
}

func syncLocker(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	locker := holdfast.SyncLocker(holdfast.WithOwner(background, c.NewOwner()), k.lock(c, name))
	var inside, overlaps atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			locker.Lock()
			if inside.Add(1) != 1 {
				overlaps.Add(1)
			}
			inside.Add(-1)
			locker.Unlock()
		})
	}
	wg.Wait()
	if overlaps.Load() > 0 {
		t.Error("holds overlapped")
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Unlock without Lock: %v", err)
		}
	}()
	locker.Unlock()
}

func handOver(t *testing.T, p *platform, k *kind) {
	a, b, name := p.client(t), p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(a, name).Lock(background))
	got := make(chan time.Time)
	go func() {
		next, err := k.against(b, name).Lock(background)
		at := time.Now()
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		unlock(t, next)
		got <- at
	}()
	p.awaitWaiter(t, k, name)
	released := time.Now()
	unlock(t, h)
	if took := (<-got).Sub(released); took > byMessage {
		t.Errorf("the waiter got it after %v", took)
	}
	waitFor(t, "the subscription's end", func() bool { return !p.listens(t, name) })
}

// holdsDoNotOverlap has several clients contend, and looks at the times of their
// holds, not at a count.
func holdsDoNotOverlap(t *testing.T, p *platform, k *kind) {
	var mu sync.Mutex
	var spans []span
	var wg sync.WaitGroup
	name := p.fresh(t, k)
	for client := range 4 {
		c := p.client(t)
		for i := range 4 {
			wg.Go(func() {
				l, shared := k.contender(c, name, i)
				for range 10 {
					h, err := l.Lock(background)
					if err != nil {
						t.Error(err)
						return
					}
					s := span{who: client, shared: shared, from: now()}
					work := 200 * time.Microsecond
					if shared {
						work = 5 * time.Millisecond // long enough for others to come in, on a slow driver, too
					}
					time.Sleep(work)
					s.to = now()
					unlock(t, h)
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
	checkSpans(t, k, spans)
	p.wantNothing(t, k, name)
}

func closeGivesBack(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	h := must(t)(k.lock(c, name).Lock(background))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrClosed) {
		t.Errorf("cause %v", cause)
	}
	unlock(t, must(t)(k.against(p.client(t), name).TryLock(background)))
}

// P1: an unlock leaves nothing but the message.
func unlockLeavesNoKey(t *testing.T, p *platform, k *kind) {
	c, name := p.client(t), p.fresh(t, k)
	for range 10 {
		unlock(t, must(t)(k.lock(c, name).Lock(background)))
	}
	p.wantNothing(t, k, name)
}

// waitFor polls for something that can only be seen from outside.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
