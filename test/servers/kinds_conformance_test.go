package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The conformance suite: what the articles about Redisson's RLock describe, and
// what holdfast adds, for every kind, through both adapters, in real time.
func TestConformance(t *testing.T) {
	t.Parallel()
	suite := map[string]func(*testing.T, *kit.Platform, *kit.Kind){
		"P1_LockAndUnlock": lockAndUnlock,
		"Reentrancy":       reentrancy,
		"FixedLease":       fixedLease,
		"WaitAndLease":     waitAndLease,
		"ForceUnlock":      forceUnlock,
		"HandOver":         handOver,
		"CloseGivesBack":   closeGivesBack,
		"Transfer":         transfer,
		"Overwritten":      overwritten,
	}
	s := redistest.Start(t)
	platforms := kit.Both("standalone", []string{s.Addr()}, kit.CLI(s))
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
	c, stranger, name := p.Client(t), p.Client(t), kit.Fresh()
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	p.WantCount(t, k, name, h.Owner(), 1)
	kit.WantError(t, kit.ErrOf(k.Lock(stranger, name).Adopt(background, stranger.NewOwner())), holdfast.ErrNotHeld)
	if d := time.Until(h.Deadline()); d > 30*time.Second || d < 20*time.Second || h.Name() != name {
		t.Errorf("%q, deadline in %v", h.Name(), d)
	}
	kit.Unlock(t, h)
	if !h.Deadline().IsZero() {
		t.Errorf("deadline %v after Unlock", h.Deadline())
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
	kit.Unlock(t, kit.Must(t)(k.Lock(c, name).Lock(background)))
	p.WantNothing(t, k, name)
}

// An owner holds the lock as often as its kind allows, and others are told so.
func reentrancy(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), kit.Fresh()
	mu, asker := k.Lock(c, name), k.Lock(p.Client(t), name)
	check := func(owner holdfast.Owner, count int) {
		t.Helper()
		p.WantCount(t, k, name, owner, count)
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
	outer := kit.Must(t)(mu.Lock(background))
	check(outer.Owner(), 1)
	if k.Nests() {
		inner := kit.Must(t)(k.Lock(c, name).Lock(outer.Context()))
		third := kit.Must(t)(mu.TryLock(inner.Context()))
		check(outer.Owner(), 3)
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
	kit.WantError(t, kit.ErrOf(k.Against(c, name).TryLock(background)), holdfast.ErrLocked) // another goroutine's call
	check(outer.Owner(), 1)
	kit.Unlock(t, outer)
	check(outer.Owner(), 0)
	p.WantNothing(t, k, name)
}

func fixedLease(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), kit.Fresh()
	h := kit.Must(t)(k.Lock(c, name).Lock(background, holdfast.FixedLease(5*time.Second)))
	next := kit.Must(t)(k.Against(p.Client(t), name).Lock(background))
	if granted := time.Now(); h.Deadline().After(granted) {
		t.Errorf("another had it %v before the deadline", h.Deadline().Sub(granted))
	}
	kit.WantError(t, h.Unlock(), holdfast.ErrLost) // also if this process was too busy to say so
	kit.WantError(t, context.Cause(h.Context()), holdfast.ErrLost)
	kit.Unlock(t, next)
}

// One who is refused is told why, and one who waits bounds its wait.
func waitAndLease(t *testing.T, p *kit.Platform, k *kit.Kind) {
	name, lease := kit.Fresh(), holdfast.FixedLease(time.Minute)
	h := kit.Must(t)(k.Lock(p.Client(t), name).TryLock(background))
	l := k.Against(p.Client(t), name)
	_, err := l.TryLock(background)
	var locked *holdfast.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("TryLock of a held lock: %v", err)
	}
	if locked.Holder != h.Owner() {
		t.Errorf("held by %q, told of %q", h.Owner(), locked.Holder)
	}
	if locked.Name != name || locked.TTL > 30*time.Second || locked.TTL < 20*time.Second {
		t.Errorf("%+v", locked)
	}
	for _, wait := range []time.Duration{5 * time.Second, 0} {
		kit.WantError(t, kit.ErrOf(l.Lock(background, holdfast.Wait(wait), lease)), holdfast.ErrLocked)
	}
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	_, err = l.Lock(ctx)
	kit.WantError(t, err, context.DeadlineExceeded)
	if errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("giving up is told as being refused: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { kit.Unlock(t, h) })
	second := kit.Must(t)(l.Lock(background, holdfast.Wait(30*time.Second), lease))
	if d := time.Until(second.Deadline()); d > time.Minute || d < 50*time.Second {
		t.Errorf("deadline in %v", d)
	}
	kit.Unlock(t, second)
}

// A forced unlock lets in who waits. One that names owners does not hit another one.
func forceUnlock(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), kit.Fresh()
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	operator := k.Lock(p.Client(t), name)
	kit.WantDid(t, false)(operator.ForceUnlock(background, c.NewOwner()))
	p.WantCount(t, k, name, h.Owner(), 1)
	got := turn(k.Against(p.Client(t), name))
	kit.WantDid(t, true)(operator.ForceUnlock(background, c.NewOwner(), h.Owner()))
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
	kit.OK(t, <-got)
	kit.WantDid(t, false)(operator.ForceUnlock(background))
	h = kit.Must(t)(k.Lock(c, name).Lock(background))
	kit.WantDid(t, true)(operator.ForceUnlock(background))
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

func handOver(t *testing.T, p *kit.Platform, k *kit.Kind) {
	name := kit.Fresh()
	h := kit.Must(t)(k.Lock(p.Client(t), name).Lock(background))
	got := turn(k.Against(p.Client(t), name))
	p.AwaitWaiter(t, k, name)
	kit.Unlock(t, h)
	kit.OK(t, <-got)
	kit.WaitFor(t, "the subscription's end", func() bool { return !p.Listens(t, name) })
}

func closeGivesBack(t *testing.T, p *kit.Platform, k *kit.Kind) {
	c, name := p.Client(t), kit.Fresh()
	h := kit.Must(t)(k.Lock(c, name).Lock(background))
	kit.OK(t, c.Close())
	kit.WantError(t, context.Cause(h.Context()), holdfast.ErrClosed)
	kit.Unlock(t, kit.Must(t)(k.Against(p.Client(t), name).TryLock(background)))
}

// A hold passes from one process to another, and the lock stays held.
func transfer(t *testing.T, p *kit.Platform, k *kit.Kind) {
	a, b, name := p.Client(t), p.Client(t), kit.Fresh()
	h := kit.Must(t)(k.Lock(a, name).Lock(background))
	owner, err := h.Detach()
	kit.OK(t, err)
	kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
	kit.WantError(t, kit.ErrOf(k.Against(b, name).TryLock(background)), holdfast.ErrLocked)
	adopted := kit.Must(t)(k.Lock(b, name).Adopt(background, owner))
	kit.OK(t, adopted.Extend(background, time.Minute))
	p.WantCount(t, k, name, adopted.Owner(), 1)
	kit.Unlock(t, adopted)
	p.WantNothing(t, k, name)
}

// A lock that somebody overwrites is lost, and whoever unlocks it is told so. Nothing else is told, or waited for.
func overwritten(t *testing.T, p *kit.Platform, k *kit.Kind) {
	name := kit.Fresh()
	h := kit.Must(t)(k.Lock(quiet(t, p), name).Lock(background))
	p.Do(t, name, "SET", name, "something else")
	err := h.Unlock()
	kit.WantError(t, err, holdfast.ErrLost, holdfast.ErrNotHeld)
	if !strings.Contains(err.Error(), "another kind of object") {
		t.Errorf("%v does not say why", err)
	}
	wantReply(t, p, name, "something else", "GET", name)
}
