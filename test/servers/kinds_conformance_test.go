package servers

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
	"github.com/holdfast-go/holdfast/test/kit"
)

// The conformance suite: what the articles about Redisson's RLock describe, and
// what holdfast adds, for every kind, on every driver, in real time.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := map[string]func(*testing.T, *kit.Platform, *kit.Kind){
		"LockAndUnlock":        lockAndUnlock,
		"Reentrancy":           reentrancy,
		"FixedLease":           fixedLease,
		"TryLock":              tryLock,
		"WaitAndLease":         waitAndLease,
		"CancelledWait":        cancelledWait,
		"StrangerCannotUnlock": strangerCannotUnlock,
		"ForceUnlock":          forceUnlock,
		"ForceUnlockOfOne":     forceUnlockOfOne,
		"Questions":            questions,
		"Watchdog":             watchdogRenews,
		"DoAndCallbacks":       doAndCallbacks,
		"SyncLocker":           syncLocker,
		"HandOver":             handOver,
		"HoldsDoNotOverlap":    holdsDoNotOverlap,
		"CloseGivesBack":       closeGivesBack,
		"P1_UnlockLeavesNoKey": unlockLeavesNoKey,
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

func lockAndUnlock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	p.WantCount(t, k, name, h.Owner(), 1)
	if d := time.Until(h.Deadline()); d > 30*time.Second || d < 25*time.Second {
		t.Errorf("deadline in %v", d)
	}
	if h.Name() != name {
		t.Errorf("name %q", h.Name())
	}
	kit.Unlock(t, h)
	p.WantCount(t, k, name, h.Owner(), 0)
	if !h.Deadline().IsZero() {
		t.Errorf("deadline %v after Unlock", h.Deadline())
	}
}

func reentrancy(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	mu := k.Lock(c, name)
	outer := kit.Must(t)(mu.Lock(background))
	if !k.Nests {
		notTwice(t, p, k, outer)
		return
	}
	inner := kit.Must(t)(k.Lock(c, name).Lock(outer.Context()))
	third := kit.Must(t)(mu.TryLock(inner.Context()))
	p.WantCount(t, k, name, outer.Owner(), 3)
	if inner.Owner() != outer.Owner() {
		t.Errorf("owners %v and %v", inner.Owner(), outer.Owner())
	}
	_, err := k.Against(c, name).TryLock(background) // another goroutine's call
	kit.WantError(t, err, holdfast.ErrLocked)
	kit.Unlock(t, third)
	kit.Unlock(t, inner)
	p.WantCount(t, k, name, outer.Owner(), 1)
	kit.Unlock(t, outer)
	p.WantNothing(t, k, name)
}

// notTwice checks that an owner cannot have the lock a second time, here or in
// another process.
func notTwice(t *testing.T, p *kit.Platform, k *kit.Kind, h *holdfast.Hold) {
	t.Helper()
	for _, c := range []*holdfast.Client{p.Client(t), p.Client(t)} {
		_, err := k.Lock(c, h.Name()).TryLock(h.Context())
		if !errors.Is(err, holdfast.ErrReentrant) && !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("a second hold: %v", err)
		}
	}
	p.WantCount(t, k, h.Name(), h.Owner(), 1)
	kit.Unlock(t, h)
	p.WantNothing(t, k, h.Name())
}

func fixedLease(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	const lease = 2 * time.Second // a busy machine may take a good part of it to answer
	start := time.Now()
	h := kit.Must(t)(k.Lock(c, name).Lock(background, holdfast.FixedLease(lease)))
	next := kit.Must(t)(k.Against(p.Client(t), name).Lock(background))
	if took := time.Since(start); took < lease {
		t.Errorf("the next owner got it after %v", took)
	}
	if granted := time.Now(); h.Deadline().After(granted) {
		t.Errorf("another had it %v before the deadline", h.Deadline().Sub(granted))
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost) // also if this process was too busy to say so
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("cause %v when another had it", cause)
	}
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
	if locked.Name != name || locked.TTL > 30*time.Second || locked.TTL < 25*time.Second {
		t.Errorf("%+v", locked)
	}
	kit.Unlock(t, h)
	kit.Unlock(t, kit.Must(t)(k.Lock(c, name).TryLock(background, holdfast.FixedLease(time.Minute))))
}

func waitAndLease(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	start := time.Now()
	_, err := k.Against(p.Client(t), name).Lock(background, holdfast.Wait(2*time.Second), holdfast.FixedLease(time.Minute))
	kit.WantError(t, err, holdfast.ErrLocked)
	if took := time.Since(start); took < 2*time.Second || took > 5*time.Second {
		t.Errorf("gave up after %v", took)
	}
	_, err = k.Against(c, name).Lock(background, holdfast.Wait(0))
	kit.WantError(t, err, holdfast.ErrLocked)
	time.AfterFunc(50*time.Millisecond, func() { kit.Unlock(t, h) })
	second := kit.Must(t)(k.Against(p.Client(t), name).Lock(background, holdfast.Wait(10*time.Second), holdfast.FixedLease(time.Minute)))
	if d := time.Until(second.Deadline()); d > time.Minute || d < 58*time.Second {
		t.Errorf("deadline in %v", d)
	}
	kit.Unlock(t, second)
}

func cancelledWait(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := k.Against(p.Client(t), name).Lock(ctx)
	kit.WantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up is told as being refused: %v", err)
	}
	kit.Unlock(t, h)
}

func strangerCannotUnlock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	stranger := p.Client(t)
	_, err := k.Lock(stranger, name).Adopt(background, stranger.NewOwner())
	kit.WantError(t, err, holdfast.ErrNotHeld)
	kit.Unlock(t, h)
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
}

func forceUnlock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	waiter := make(chan *holdfast.Hold)
	go func() {
		next, err := k.Against(p.Client(t), name).Lock(background)
		if err != nil {
			t.Error(err)
		}
		waiter <- next
	}()
	operator := k.Lock(p.Client(t), name)
	was, err := operator.ForceUnlock(background)
	if err != nil || !was {
		t.Fatalf("ForceUnlock: %v, %v", was, err)
	}
	kit.Unlock(t, <-waiter)
	was, err = operator.ForceUnlock(background)
	if err != nil || was {
		t.Errorf("ForceUnlock of a free lock: %v, %v", was, err)
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

// A forced unlock that names owners does not hit another one.
func forceUnlockOfOne(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	operator := k.Lock(p.Client(t), name)
	was, err := operator.ForceUnlock(background, c.NewOwner())
	if err != nil || was {
		t.Errorf("ForceUnlock of another owner: %v, %v", was, err)
	}
	found, err := operator.Inspect(background)
	if err != nil || len(found.Holders) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	was, err = operator.ForceUnlock(background, c.NewOwner(), found.Holders[0].Owner)
	if err != nil || !was {
		t.Errorf("ForceUnlock of the holder: %v, %v", was, err)
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

func questions(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	mu, asker := k.Lock(c, name), k.Lock(p.Client(t), name)
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
			if i > 0 || h.Owner != owner || h.Count != count || h.TTL <= 0 || h.TTL > found.TTL+time.Second || h.Mode != k.Mode {
				t.Errorf("holder %d is %+v", i, h)
			}
		}
		if found.Name != name {
			t.Errorf("the name is %q", found.Name)
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
	if n, err := kit.HoldCount(asker, c.NewOwner()); n > 0 || err != nil {
		t.Errorf("HeldBy a stranger: %v, %v", n, err)
	}
	kit.Unlock(t, outer)
	check(outer.Owner(), 0)
}

func watchdogRenews(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t, holdfast.WithLease(6*time.Second)), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	ended := make(chan struct{})
	go func() { // the lock is not free when the lease that it was acquired with is long over
		defer close(ended)
		_, err := k.Against(p.Client(t), name).Lock(background, holdfast.Wait(9*time.Second))
		kit.WantError(t, err, holdfast.ErrLocked)
	}()
	<-ended
	if err := h.Context().Err(); err != nil {
		t.Errorf("lost although renewed: %v", context.Cause(h.Context()))
	}
	kit.Unlock(t, h)
}

func doAndCallbacks(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	var seen []string
	note := func(what string) func(context.Context, holdfast.Event) {
		return func(_ context.Context, e holdfast.Event) { seen = append(seen, what+" "+e.Name) }
	}
	failure := errors.New("failed inside")
	err := holdfast.Do(background, k.Lock(c, name), func(ctx context.Context, _ *holdfast.Hold) error {
		owner, ok := holdfast.OwnerFrom(ctx, k.Lock(c, name))
		found, err := k.Lock(c, name).Inspect(ctx)
		seen = append(seen, fmt.Sprint("inside ", ok, found.HeldBy(owner), err))
		return failure
	}, holdfast.WithHooks(holdfast.Hooks{OnAcquire: note("acquired"), OnRelease: note("released")}))
	kit.WantError(t, err, failure)
	want := []string{"acquired " + name, "inside true true <nil>", "released " + name}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	func() {
		defer func() { _ = recover() }()
		_ = holdfast.Do(background, k.Lock(c, name), func(context.Context, *holdfast.Hold) error { panic("inside") })
	}()
	if locked, err := kit.IsLocked(k.Lock(c, name)); locked || err != nil {
		t.Errorf("after a panic: locked %v, %v", locked, err)
	}
}

func syncLocker(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	locker := holdfast.SyncLocker(holdfast.WithOwner(background, c.NewOwner()), k.Lock(c, name))
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

func handOver(t *testing.T, p *kit.Platform, k *kit.Kind) {
	a, b, name := p.Client(t), p.Client(t), p.Fresh(t, k)
	h := kit.Must(t)(k.Lock(a, name).Lock(background))
	got := make(chan time.Time)
	go func() {
		next, err := k.Against(b, name).Lock(background)
		at := time.Now()
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		kit.Unlock(t, next)
		got <- at
	}()
	p.AwaitWaiter(t, k, name)
	released := time.Now()
	kit.Unlock(t, h)
	if took := (<-got).Sub(released); took > kit.ByMessage {
		t.Errorf("the waiter got it after %v", took)
	}
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
				for range 10 {
					h, err := l.Lock(background)
					if err != nil {
						t.Error(err)
						return
					}
					s := kit.Span{Who: client, Shared: shared, From: kit.Now()}
					work := 200 * time.Microsecond
					if shared {
						work = 5 * time.Millisecond // long enough for others to come in, on a slow driver, too
					}
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
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrClosed) {
		t.Errorf("cause %v", cause)
	}
	kit.Unlock(t, kit.Must(t)(k.Against(p.Client(t), name).TryLock(background)))
}

// P1: an unlock leaves nothing but the message.
func unlockLeavesNoKey(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), p.Fresh(t, k)
	for range 10 {
		kit.Unlock(t, kit.Must(t)(k.Lock(c, name).Lock(background)))
	}
	p.WantNothing(t, k, name)
}
