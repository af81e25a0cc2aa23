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
// what holdfast adds, on every driver, in real time.
func TestConformance(t *testing.T) {
	suite := map[string]func(*testing.T, *place){
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
	for _, p := range standalone(t) {
		for name, test := range suite {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				test(t, p)
			})
		}
	}
}

// names gives every test a lock of its own.
var names atomic.Int64

func fresh() string { return fmt.Sprintf("lock:%d", names.Add(1)) }

func lockAndUnlock(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	if got, want := p.do(t, name, "HGETALL", name), []string{h.Owner().String(), "1"}; !slices.Equal(got, want) {
		t.Errorf("HGETALL %v, want %v", got, want)
	}
	if d := time.Until(h.Deadline()); d > 30*time.Second || d < 29*time.Second {
		t.Errorf("deadline in %v", d)
	}
	if h.Name() != name {
		t.Errorf("name %q", h.Name())
	}
	unlock(t, h)
	if got := p.do(t, name, "EXISTS", name); !slices.Equal(got, []string{"0"}) {
		t.Errorf("EXISTS %v after Unlock", got)
	}
	if !h.Deadline().IsZero() {
		t.Errorf("deadline %v after Unlock", h.Deadline())
	}
}

func reentrancy(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	mu := c.NewMutex(name)
	outer := must(t)(mu.Lock(background))
	inner := must(t)(c.NewMutex(name).Lock(outer.Context()))
	third := must(t)(mu.TryLock(inner.Context()))
	want := []string{outer.Owner().String(), "3"}
	if got := p.do(t, name, "HGETALL", name); !slices.Equal(got, want) {
		t.Errorf("HGETALL %v, want %v", got, want)
	}
	if inner.Owner() != outer.Owner() {
		t.Errorf("owners %v and %v", inner.Owner(), outer.Owner())
	}
	_, err := mu.TryLock(background) // another goroutine's call
	wantError(t, err, holdfast.ErrLocked)
	unlock(t, third)
	unlock(t, inner)
	want[1] = "1"
	if got := p.do(t, name, "HGETALL", name); !slices.Equal(got, want) {
		t.Errorf("HGETALL %v, want %v", got, want)
	}
	unlock(t, outer)
}

func fixedLease(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	start := time.Now()
	h := must(t)(c.NewMutex(name).Lock(background, holdfast.Lease(300*time.Millisecond)))
	next := must(t)(p.client(t).NewMutex(name).Lock(background))
	if took := time.Since(start); took < 300*time.Millisecond {
		t.Errorf("the next owner got it after %v", took)
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
		t.Errorf("cause %v when another had it", cause)
	}
	wantError(t, h.Unlock(), holdfast.ErrLost)
	unlock(t, next)
}

func tryLock(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).TryLock(background))
	_, err := p.client(t).NewMutex(name).TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("TryLock of a held lock: %v", err)
	}
	if locked.Holder != h.Owner().String() || locked.Name != name || locked.TTL > 30*time.Second || locked.TTL < 25*time.Second {
		t.Errorf("%+v", locked)
	}
	unlock(t, h)
	unlock(t, must(t)(c.NewMutex(name).TryLock(background, holdfast.Lease(time.Minute))))
}

func waitAndLease(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	start := time.Now()
	_, err := p.client(t).NewMutex(name).Lock(background, holdfast.Wait(200*time.Millisecond), holdfast.Lease(time.Minute))
	wantError(t, err, holdfast.ErrLocked)
	if took := time.Since(start); took < 200*time.Millisecond || took > 2*time.Second {
		t.Errorf("gave up after %v", took)
	}
	_, err = c.NewMutex(name).Lock(background, holdfast.Wait(0))
	wantError(t, err, holdfast.ErrLocked)
	time.AfterFunc(50*time.Millisecond, func() { unlock(t, h) })
	second := must(t)(p.client(t).NewMutex(name).Lock(background, holdfast.Wait(10*time.Second), holdfast.Lease(time.Minute)))
	if d := time.Until(second.Deadline()); d > time.Minute || d < 58*time.Second {
		t.Errorf("deadline in %v", d)
	}
	unlock(t, second)
}

func cancelledWait(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err := p.client(t).NewMutex(name).Lock(ctx)
	wantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up is told as being refused: %v", err)
	}
	unlock(t, h)
}

func strangerCannotUnlock(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	stranger := p.client(t)
	_, err := stranger.NewMutex(name).Adopt(background, stranger.NewOwner())
	wantError(t, err, holdfast.ErrNotHeld)
	unlock(t, h)
	wantError(t, h.Unlock(), holdfast.ErrNotHeld)
}

func forceUnlock(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	waiter := make(chan *holdfast.Hold)
	go func() {
		next, err := p.client(t).NewMutex(name).Lock(background)
		if err != nil {
			t.Error(err)
		}
		waiter <- next
	}()
	operator := p.client(t).NewMutex(name)
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

func questions(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	mu, asker := c.NewMutex(name), p.client(t).NewMutex(name)
	check := func(owner holdfast.Owner, count int) {
		t.Helper()
		locked, err1 := asker.Locked(background)
		held, err2 := asker.HeldBy(background, owner)
		n, err3 := asker.HoldCount(background, owner)
		ttl, err4 := asker.TTL(background)
		found, err5 := asker.Inspect(background)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			t.Fatal(err)
		}
		if locked != (count > 0) || held != (count > 0) || n != count || (ttl > 0) != (count > 0) {
			t.Errorf("locked %v, held %v, count %d, ttl %v; want count %d", locked, held, n, ttl, count)
		}
		want := []holdfast.Holder{{Owner: owner.String(), Count: count}}
		if count == 0 {
			want = nil
		}
		if !slices.Equal(found.Holders, want) || found.Name != name || found.TTL > ttl {
			t.Errorf("Inspect %+v", found)
		}
	}
	check(c.NewOwner(), 0)
	outer := must(t)(mu.Lock(background))
	check(outer.Owner(), 1)
	inner := must(t)(mu.Lock(outer.Context()))
	check(outer.Owner(), 2)
	if held, err := asker.HeldBy(background, c.NewOwner()); held || err != nil {
		t.Errorf("HeldBy a stranger: %v, %v", held, err)
	}
	unlock(t, inner)
	unlock(t, outer)
	check(outer.Owner(), 0)
}

func watchdogRenews(t *testing.T, p *place) {
	c, name := p.client(t, holdfast.WithLease(300*time.Millisecond)), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	ended := make(chan struct{})
	go func() { // the lock is never free for two leases and more
		defer close(ended)
		_, err := p.client(t).NewMutex(name).Lock(background, holdfast.Wait(time.Second))
		wantError(t, err, holdfast.ErrLocked)
	}()
	<-ended
	if err := h.Context().Err(); err != nil {
		t.Errorf("lost although renewed: %v", context.Cause(h.Context()))
	}
	unlock(t, h)
}

func doAndCallbacks(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	var seen []string
	note := func(what string) func(holdfast.Event) {
		return func(e holdfast.Event) { seen = append(seen, what+" "+e.Name) }
	}
	failure := errors.New("failed inside")
	err := holdfast.Do(background, c.NewMutex(name), func(ctx context.Context) error {
		owner, ok := holdfast.OwnerFrom(ctx)
		held, err := c.NewMutex(name).HeldBy(ctx, owner)
		seen = append(seen, fmt.Sprint("inside ", ok, held, err))
		return failure
	}, holdfast.Observe(holdfast.Hooks{OnAcquire: note("acquired"), OnRelease: note("released")}))
	wantError(t, err, failure)
	want := []string{"acquired " + name, "inside true true <nil>", "released " + name}
	if !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	func() {
		defer func() { _ = recover() }()
		_ = holdfast.Do(background, c.NewMutex(name), func(context.Context) error { panic("inside") })
	}()
	if locked, err := c.NewMutex(name).Locked(background); locked || err != nil {
		t.Errorf("after a panic: locked %v, %v", locked, err)
	}
}

func syncLocker(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	locker := holdfast.SyncLocker(holdfast.WithOwner(background, c.NewOwner()), c.NewMutex(name))
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

func handOver(t *testing.T, p *place) {
	a, b, name := p.client(t), p.client(t), fresh()
	h := must(t)(a.NewMutex(name).Lock(background))
	got := make(chan time.Time)
	go func() {
		next, err := b.NewMutex(name).Lock(background)
		at := time.Now()
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		unlock(t, next)
		got <- at
	}()
	waitFor(t, "the waiter's subscription", func() bool {
		return slices.Contains(p.do(t, name, "PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}"), "1")
	})
	released := time.Now()
	unlock(t, h)
	if took := (<-got).Sub(released); took > time.Second {
		t.Errorf("the waiter got it after %v", took)
	}
	waitFor(t, "the subscription's end", func() bool {
		return slices.Contains(p.do(t, name, "PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}"), "0")
	})
}

// holdsDoNotOverlap has several clients contend, and looks at the times of their
// holds, not at a count.
func holdsDoNotOverlap(t *testing.T, p *place) {
	type span struct{ from, to time.Time }
	var mu sync.Mutex
	var spans []span
	var wg sync.WaitGroup
	name := fresh()
	for range 4 {
		c := p.client(t)
		for range 4 {
			wg.Go(func() {
				for range 10 {
					h, err := c.NewMutex(name).Lock(background)
					if err != nil {
						t.Error(err)
						return
					}
					s := span{from: time.Now()}
					time.Sleep(200 * time.Microsecond) // the work
					s.to = time.Now()
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
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from.Before(spans[i-1].to) {
			t.Errorf("hold %d began %v before the one before it ended", i, spans[i-1].to.Sub(spans[i].from))
		}
	}
}

func closeGivesBack(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	h := must(t)(c.NewMutex(name).Lock(background))
	if err := c.Close(background); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrClosed) {
		t.Errorf("cause %v", cause)
	}
	unlock(t, must(t)(p.client(t).NewMutex(name).TryLock(background)))
}

// P1: an unlock leaves nothing but the message.
func unlockLeavesNoKey(t *testing.T, p *place) {
	c, name := p.client(t), fresh()
	for range 10 {
		unlock(t, must(t)(c.NewMutex(name).Lock(background)))
	}
	if got := p.do(t, name, "KEYS", "*"+name+"*"); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

// waitFor polls for something that can only be seen from outside.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
