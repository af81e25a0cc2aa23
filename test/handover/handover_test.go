package handover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A hold that is given back is the next one's at once, under the same owner, without a call but the one that takes the waiter out
// of the line.
func TestHandOver(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		next := kit.Waiting(t, x, background)
		third := kit.Waiting(t, x, background)
		calls := kit.Count(d)
		ctx, deadline := a.Context(), a.Deadline()
		text := fmt.Sprint(a) // does not keep it from passing on
		kit.Unlock(t, a)
		b := <-next
		if b == nil || calls.All() > calls.Of("leave") || context.Cause(ctx) == nil || b.Context().Err() != nil {
			t.Fatalf("after %d calls: %v, %v", calls.All(), b, context.Cause(ctx))
		}
		if until := b.Deadline(); !until.Equal(deadline) {
			t.Errorf("to be trusted until %v, and before until %v", until, deadline)
		}
		kit.Nothing(t, third, "two have it")

		// The former holder's is nobody's.
		if err := a.Unlock(); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("a second Unlock: %v", err)
		}
		if a.Owner() != (holdfast.Owner{}) {
			t.Errorf("the former holder has an owner: %v", a.Owner())
		}
		if _, ok := holdfast.OwnerFrom(a.Context(), x); ok {
			t.Error("its context has an owner")
		}
		if h, err := x.TryLock(context.WithoutCancel(a.Context())); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("under its context: %v, %v", h, err)
		}

		// The present one's is its own, and once it is known the hold passes on no more.
		inner := kit.Must(t)(x.Lock(b.Context()))
		w.WantCount("x", b.Owner(), 2)
		if want := `mutex "x", held by ` + b.Owner().String(); text != want || fmt.Sprint(b) != want || fmt.Sprint(a) != `mutex "x", given up` {
			t.Errorf("%q, %v, and the former one %v", text, b, a)
		}
		kit.Unlock(t, inner)
		before := calls.Of("release")
		kit.Unlock(t, b)
		if calls.Of("release") == before {
			t.Error("a hold whose owner is known was handed over")
		}
		kit.Unlock(t, <-third)
	})
}

// What is not plain is released.
func TestNotHandedOver(t *testing.T) {
	for name, test := range map[string]struct {
		client    []holdfast.ClientOption
		mutex     []holdfast.MutexOption
		giver     []holdfast.LockOption
		taker     []holdfast.LockOption
		meanwhile func(t *testing.T, l *holdfast.Mutex, h *holdfast.Hold)
	}{
		"switched off": {client: []holdfast.ClientOption{holdfast.WithoutHandOver()}},
		"maximum hold": {client: []holdfast.ClientOption{holdfast.WithMaxHold(time.Hour)}},
		"fenced":       {mutex: []holdfast.MutexOption{holdfast.Fenced(holdfast.TokenTTL(time.Second))}},
		"polling":      {mutex: []holdfast.MutexOption{holdfast.Polling(time.Millisecond, time.Second)}},
		"giver fixed":  {giver: []holdfast.LockOption{holdfast.FixedLease(30 * time.Second)}},
		"taker fixed":  {taker: []holdfast.LockOption{holdfast.FixedLease(30 * time.Second)}},
		"other lease":  {taker: []holdfast.LockOption{holdfast.RenewedLease(40 * time.Second)}},
		"giver keeps":  {giver: []holdfast.LockOption{holdfast.MinHold(time.Microsecond * 1500)}},
		"taker keeps":  {taker: []holdfast.LockOption{holdfast.MinHold(time.Second)}},
		"old": {meanwhile: func(*testing.T, *holdfast.Mutex, *holdfast.Hold) {
			time.Sleep(25 * time.Millisecond)
		}},
		"short lease": {client: []holdfast.ClientOption{holdfast.WithLease(10 * time.Millisecond)}, meanwhile: func(*testing.T, *holdfast.Mutex, *holdfast.Hold) {
			time.Sleep(900 * time.Microsecond) // less than a slice, but three quarters are not left: 1 % and 2 ms are off
		}},
		"known": {meanwhile: func(_ *testing.T, _ *holdfast.Mutex, h *holdfast.Hold) { h.Owner() }},
		"known by its context": {meanwhile: func(_ *testing.T, l *holdfast.Mutex, h *holdfast.Hold) {
			holdfast.OwnerFrom(h.Context(), l)
		}},
		"extended": {meanwhile: func(t *testing.T, _ *holdfast.Mutex, h *holdfast.Hold) {
			if err := h.Extend(background, time.Minute); err != nil {
				t.Error(err)
			}
		}},
		"was nested": {meanwhile: func(t *testing.T, l *holdfast.Mutex, h *holdfast.Hold) {
			kit.Unlock(t, kit.Must(t)(l.Lock(h.Context())))
		}},
		"is nested": {meanwhile: func(t *testing.T, l *holdfast.Mutex, h *holdfast.Hold) {
			inner := kit.Must(t)(l.Lock(h.Context()))
			t.Cleanup(func() { kit.Unlock(t, inner) })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client(test.client...)
				x := c.NewMutex("x", test.mutex...)
				a := kit.Must(t)(x.Lock(background, test.giver...))
				next := kit.Waiting(t, x, background, test.taker...)
				if test.meanwhile != nil {
					test.meanwhile(t, x, a)
				}
				calls := kit.Count(d)
				kit.Unlock(t, a)
				if calls.All() == calls.Of("leave") {
					t.Error("it was handed over")
				}
				if name == "is nested" {
					return // the taker is closed with the client
				}
				kit.Unlock(t, <-next)
				time.Sleep(2 * time.Second) // what MinHold keeps, and tokens
			})
		})
	}
}

// Those who wait behind a hold that passes on are asked by nobody, and hear all the same when
// their time is over, and of the end of the client.
func TestHandOverLeaving(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewMutex("x")
		a := kit.Must(t)(x.Lock(background))
		next, gone := kit.Waiting(t, x, background), kit.Waiting(t, x, background, holdfast.Wait(time.Second/2))
		calls := kit.Count(d)
		ctx, cancel := context.WithCancel(background)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := x.Lock(ctx, holdfast.Wait(time.Minute))
				errs <- err
			}()
		}
		kit.Unlock(t, a)
		b := <-next
		cancel()
		for range 2 {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if h := <-gone; h != nil || calls.All() > calls.Of("leave") {
			t.Errorf("%v, after %d calls", h, calls.All())
		}
		go func() {
			_, err := x.Lock(background)
			errs <- err
		}()
		_, err := x.Lock(background, holdfast.Wait(time.Second))
		var locked *holdfast.LockedError
		// Of the lease of 30 s a second or two have passed.
		if !errors.As(err, &locked) || locked.TTL < 20*time.Second || locked.Holder.IsZero() {
			t.Errorf("refused: %v", err)
		}
		if h, err := x.Lock(holdfast.WithOwner(background, locked.Holder)); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("as another call's owner: %v, %v", h, err)
		}
		kit.OK(t, c.Close())
		if err := <-errs; !errors.Is(err, holdfast.ErrClosed) {
			t.Error(err)
		}
		if !errors.Is(context.Cause(b.Context()), holdfast.ErrClosed) {
			t.Error(context.Cause(b.Context()))
		}
	})
}

// However many of one process want the lock, another process has its turn soon.
func TestHandOverIsBounded(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		greedy, _ := w.Client()
		other, _ := w.Client()
		var holds atomic.Int64
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range 16 {
			all.Go(func() {
				for ctx.Err() == nil {
					if h, err := greedy.NewMutex("x").Lock(ctx); err == nil {
						time.Sleep(10 * time.Microsecond)
						holds.Add(1)
						kit.Unlock(t, h)
					}
				}
			})
		}
		synctest.Wait()
		const tooLong = 100 * time.Millisecond // it would go on for ever
		start, before := time.Now(), holds.Load()
		h := kit.Must(t)(other.NewMutex("x").Lock(background, holdfast.Wait(tooLong)))
		// A cohort lasts for 4 ms at most, the longest of one that has been alone, and then others
		// try first.
		if took := time.Since(start); took > 5*time.Millisecond || holds.Load() == before {
			t.Errorf("the other process has waited for %v, for %d holds", took, holds.Load()-before)
		}
		kit.Unlock(t, h)
		time.Sleep(200 * time.Millisecond) // nobody else has wanted it for a while
		var sum, longest time.Duration
		const rounds = 100
		for range rounds {
			start := time.Now()
			h := kit.Must(t)(other.NewMutex("x").Lock(background, holdfast.Wait(tooLong)))
			took := time.Since(start)
			sum, longest = sum+took, max(longest, took)
			kit.Unlock(t, h)
			time.Sleep(time.Millisecond)
		}
		cancel()
		all.Wait()
		// The other one has its turn in the gap behind each cohort, and mostly finds one at once. It
		// waits for a cohort of 4 ms at worst, and for some more if it loses that turn. What passes
		// on meanwhile are holds of 10 µs: seen are 30,000, and that 0.1 ms and 4 ms are waited for.
		if holds.Load() < 10_000 || sum > rounds*2*time.Millisecond || longest > 20*time.Millisecond {
			t.Errorf("%d holds; another process has waited for %v, at longest %v", holds.Load(), sum/rounds, longest)
		}
		t.Logf("%d holds; another process has waited for %v, at longest %v", holds.Load(), sum/rounds, longest)
	})
}

// Readers of one process share what Redis has granted once: those who wait behind a writer, and
// those who come within the slice. The last one gives it back.
func TestReadersShare(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		x := c.NewRWMutex("x")
		writer := kit.Must(t)(x.Lock(background))
		var waiters []<-chan *holdfast.Hold
		for range 5 {
			waiters = append(waiters, kit.Waiting(t, x.RLocker(), background))
		}
		calls := kit.Count(d)
		kit.Unlock(t, writer)
		var readers []*holdfast.Hold
		for _, waiter := range waiters {
			readers = append(readers, <-waiter)
		}
		readers = append(readers, kit.Must(t)(x.TryRLock(background)))
		if calls.All() != 1 {
			t.Errorf("%d calls for a release and %d readers", calls.All(), len(readers))
		}
		if h, err := x.TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatal(h, err)
		}

		// Each has an end of its own, and after it the owner is not its any more.
		kit.Unlock(t, readers[0])
		if err := readers[0].Unlock(); !errors.Is(err, holdfast.ErrNotHeld) || readers[0].Context().Err() == nil || readers[1].Context().Err() != nil {
			t.Error(err)
		}
		if owner := readers[0].Owner(); !owner.IsZero() {
			t.Errorf("who has left has an owner: %v", owner)
		}

		// One who comes later asks Redis.
		time.Sleep(2 * time.Millisecond)
		before := calls.All()
		late := kit.Must(t)(x.RLock(background))
		if calls.All() == before || late.Owner() == readers[1].Owner() {
			t.Error("one who came later has joined")
		}
		kit.Unlock(t, late)

		// Nested holds are counted, beside the one that is shared.
		inner := kit.Must(t)(x.RLock(readers[1].Context()))
		if state, err := x.Inspect(background); err != nil || state.Count(inner.Owner()) != 2 {
			t.Error(state, err)
		}
		kit.Unlock(t, readers[1])
		for _, h := range readers[2:] {
			kit.Unlock(t, h)
		}
		isLast(t, x, inner)
	})
}

// isLast fails unless the hold alone keeps a writer out, and unlocks it.
func isLast(t *testing.T, x *holdfast.RWMutex, h *holdfast.Hold) {
	t.Helper()
	if writer, err := x.TryLock(background); !errors.Is(err, holdfast.ErrLocked) {
		t.Fatal(writer, err)
	}
	kit.Unlock(t, h)
	kit.Unlock(t, kit.Must(t)(x.TryLock(background)))
}

// A hold that is shared is detached when the others have left, and not before.
func TestSharedAndDetached(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewRWMutex("x")
		a, b := kit.Must(t)(x.RLock(background)), kit.Must(t)(x.RLock(background))
		if _, err := a.Detach(); !errors.Is(err, holdfast.ErrReentrant) {
			t.Fatalf("Detach beside another: %v", err)
		}
		time.AfterFunc(time.Second, func() { kit.Unlock(t, b) })
		owner, err := a.Detach()
		kit.OK(t, err)
		kit.Unlock(t, kit.Must(t)(x.RLocker().Adopt(background, owner)))
	})
}
