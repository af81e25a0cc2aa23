package multi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMultiLockTakesAll(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		m := holdfast.NewMultiLock(kit.Mutexes(c, "b", "a", "c")...)
		if m.Name() != "a+b+c" {
			t.Errorf("name %q", m.Name())
		}
		for _, lock := range []func(context.Context) (*holdfast.Hold, error){
			func(ctx context.Context) (*holdfast.Hold, error) { return m.Lock(ctx) },
			func(ctx context.Context) (*holdfast.Hold, error) { return m.TryLock(ctx) },
		} {
			before := seen.All()
			h := kit.Must(t)(lock(background))
			if n := seen.All() - before; n != 3 {
				t.Errorf("%d calls, want one for each lock", n)
			}
			for _, name := range []string{"a", "b", "c"} {
				w.WantCount(name, h.Owner(), 1)
			}
			if h.Name() != "a+b+c" || h.Token() != 0 || len(h.Parts()) != 3 || h.Parts()[1].Name() != "b" {
				t.Errorf("name %q, token %d, parts %v", h.Name(), h.Token(), h.Parts())
			}
			if d := time.Until(h.Deadline()); d > 30*time.Second || d < 29*time.Second {
				t.Errorf("deadline in %v", d)
			}
			time.Sleep(time.Minute) // renewed
			if h.Context().Err() != nil {
				t.Errorf("lost: %v", context.Cause(h.Context()))
			}
			kit.Unlock(t, h)
			if cause := context.Cause(h.Context()); cause != context.Canceled { //nolint:errorlint // unwrapped
				t.Errorf("cause %v", cause)
			}
			if !h.Deadline().IsZero() {
				t.Errorf("deadline %v after Unlock", h.Deadline())
			}
			kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
			kit.WantError(t, h.Extend(background, time.Minute), holdfast.ErrNotHeld)
			w.WantReply("", "KEYS", "*")
		}
	})
}

func TestMultiLockRefusedTakesNothing(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		holder, _ := w.Client()
		h := kit.Must(t)(holder.NewMutex("b").Lock(background))
		m := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b", "c")...)
		start := time.Now()
		for _, wait := range []time.Duration{0, 5 * time.Second} {
			_, err := m.Lock(background, holdfast.Wait(wait))
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.Name != "b" || locked.Holder != h.Owner() || locked.TTL <= 0 {
				t.Errorf("%#v", err)
			}
			if took := time.Since(start); took != wait {
				t.Errorf("Wait(%v) took %v", wait, took)
			}
			synctest.Wait() // the wait is over, so it is given back in the background
			w.WantReply("b", "KEYS", "*")
		}
		_, err := m.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		w.WantReply("b", "KEYS", "*")
		ctx, cancel := context.WithCancelCause(background)
		why := errors.New("changed my mind")
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err = m.Lock(ctx)
		kit.WantError(t, err, context.Canceled, why)
		time.Sleep(time.Second)
		w.WantReply("b", "KEYS", "*")
		kit.Unlock(t, h)
	})
}

// A multi-lock waits for each lock where those who want only that one wait, so
// it does not starve.
func TestMultiLockWaitsInTurn(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		a, _ := w.Client()
		ha := kit.Must(t)(a.NewMutex("a").Lock(background))
		hb := kit.Must(t)(a.NewMutex("b").Lock(background))
		got := make(chan *holdfast.Hold)
		start := time.Now()
		go func() { got <- kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "b", "a")...).Lock(background)) }()
		time.Sleep(time.Minute)
		kit.Unlock(t, ha)
		time.Sleep(time.Second)
		if n := w.PTTL("a"); n <= 0 {
			t.Error("a is not held while b is waited for")
		}
		time.Sleep(time.Minute) // a is renewed meanwhile
		kit.Unlock(t, hb)
		h := <-got
		if took := time.Since(start); took != 2*time.Minute+time.Second {
			t.Errorf("had after %v", took)
		}
		kit.Unlock(t, h)
	})
}

// Those who wait for one of the locks already come first.
func TestMultiLockDoesNotPassTheLine(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		o, _ := w.Client()
		h := kit.Must(t)(o.NewMutex("a").Lock(background))
		got := make(chan *holdfast.Hold)
		go func() { got <- kit.Must(t)(c.NewMutex("a").Lock(background)) }()
		synctest.Wait()
		all := make(chan *holdfast.Hold)
		go func() { all <- kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background)) }()
		synctest.Wait()
		kit.Unlock(t, h)
		kit.Unlock(t, <-got)
		kit.Unlock(t, <-all)
	})
}

// S22, S23: a fixed lease is asked for once, counts from when all are had, and
// is not shorter for those that were had first.
func TestS22_S23_FixedLeaseCountsFromTheLast(t *testing.T) {
	for _, lease := range []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Hour} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			o, _ := w.Client()
			h := kit.Must(t)(o.NewMutex("b").Lock(background))
			time.AfterFunc(20*time.Second, func() { kit.Unlock(t, h) })
			start := time.Now()
			m := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background, holdfast.FixedLease(lease)))
			if took := time.Since(start); took != 20*time.Second {
				t.Errorf("had after %v", took)
			}
			for _, name := range []string{"a", "b"} {
				if ttl := w.PTTL(name); ttl != lease {
					t.Errorf("TTL of %q %v, want %v", name, ttl, lease)
				}
			}
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				if call.Script.Name() == "renew" && call.Args[len(call.Args)-1] != "0" { // else it only asks
					t.Error("a fixed lease is renewed")
				}
				return memdriver.Fault{}
			})
			trusted := lease - lease/100 - 2*time.Millisecond
			if left := time.Until(m.Deadline()); left != trusted {
				t.Errorf("deadline in %v, want %v", left, trusted)
			}
			if took := kit.LostAt(t, m, time.Now()); took != trusted {
				t.Errorf("lost after %v, want %v", took, trusted)
			}
			kit.WantError(t, m.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		})
	}
}

// After a fixed lease was kept, what is nested without one is renewed as ever.
func TestNestedInAFixedMultiLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		o, _ := w.Client()
		h := kit.Must(t)(o.NewMutex("b").Lock(background))
		time.AfterFunc(time.Second, func() { kit.Unlock(t, h) })
		m := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background, holdfast.FixedLease(time.Second)))
		in := kit.Must(t)(c.NewMutex("a").Lock(m.Context()))
		seen := kit.Count(d)
		time.Sleep(time.Minute)
		if n := seen.Of("renew"); n == 0 || n > 12 { // by the lease of 1 s they would be 180
			t.Errorf("%d renewals in a minute", n)
		}
		if err := in.Unlock(); err != nil {
			t.Errorf("the nested hold: %v", err)
		}
		// b's lease is over.
		kit.WantError(t, m.Unlock(), holdfast.ErrLost)
	})
}

// S23: a part that is lost while others are waited for is not counted as held.
func TestS23_LostWhileGathering(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		o, _ := w.Client()
		hb := kit.Must(t)(o.NewMutex("b").Lock(background))
		got := make(chan *holdfast.Hold)
		go func() { got <- kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background)) }()
		time.Sleep(2 * time.Second)
		if _, err := o.NewMutex("a").ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		thief := kit.Must(t)(o.NewMutex("a").Lock(background))
		time.Sleep(100 * time.Millisecond) // until then a forced unlock may be unnoticed
		kit.Unlock(t, hb)
		time.Sleep(time.Minute)
		select {
		case h := <-got:
			t.Fatalf("%v holds all, and %v holds a", h.Owner(), thief.Owner())
		default:
		}
		w.WantReply("a holdfast_asks:{a} holdfast_line:{a}", "KEYS", "*") // b is not kept from others for that long
		kit.Unlock(t, thief)
		h := <-got
		w.WantCount("a", h.Owner(), 1)
		w.WantCount("b", h.Owner(), 1)
		kit.Unlock(t, h)
	})
}

func TestMultiLockEndsWithAnyPart(t *testing.T) {
	for _, name := range []string{"a", "b", "c"} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			var lost, acquired, released atomic.Int32
			c, _ := w.Client(holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) { acquired.Add(1) }}))
			h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b", "c")...).Lock(background, holdfast.WithHooks(holdfast.Hooks{
				OnAcquire: func(_ context.Context, e holdfast.Event) { acquired.Add(10) },
				OnRelease: func(_ context.Context, e holdfast.Event) { released.Add(1) },
				OnLost: func(_ context.Context, e holdfast.Event) {
					lost.Add(1)
					if e.Name != "a+b+c" || !errors.Is(e.Err, holdfast.ErrLost) || !strings.Contains(e.Err.Error(), `"`+name+`"`) {
						t.Errorf("%+v", e)
					}
				},
			})))
			time.Sleep(2 * time.Second)
			start := time.Now()
			if _, err := c.NewMutex(name).ForceUnlock(background); err != nil {
				t.Fatal(err)
			}
			if took := kit.LostAt(t, h, start); took > 100*time.Millisecond {
				t.Errorf("told after %v", took)
			}
			for _, p := range h.Parts() {
				if p.Context().Err() == nil {
					t.Errorf("the context of %q goes on", p.Name())
				}
			}
			kit.WantError(t, h.Extend(background, time.Minute), holdfast.ErrLost)
			kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
			synctest.Wait()
			w.WantReply("", "KEYS", "*")
			if lost.Load() != 1 || acquired.Load() != 13 || released.Load() != 0 {
				t.Errorf("told of %d losses, %d acquired, %d released", lost.Load(), acquired.Load(), released.Load())
			}
		})
	}
}

// A4: Unlock gives back what it can, and tells of every lock that was lost.
func TestA4_UnlockReleasesAllAndJoinsErrors(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b", "c", "d")...).Lock(background))
		w.Do("DEL", "a", "c")
		err := h.Unlock()
		kit.WantError(t, err, holdfast.ErrLost)
		for _, name := range []string{`"a"`, `"c"`} {
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%v does not tell of %s", err, name)
			}
		}
		for _, name := range []string{`"b"`, `"d"`} {
			if strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%v tells of %s", err, name)
			}
		}
		w.WantReply("", "KEYS", "*")
	})
}

// A5: multi-locks nest, with a lease, too.
func TestA5_NestedMultiLocks(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		v := w.Further()
		e, _ := v.Client()
		inner := holdfast.NewMultiLock(e.NewMutex("b"), c.NewMutex("d"))
		m := holdfast.NewMultiLock(c.NewMutex("c"), inner, holdfast.NewMultiLock(inner, c.NewMutex("a")), c.NewMutex("d"))
		if m.Name() != "a+b+c+d" {
			t.Errorf("name %q", m.Name())
		}
		h := kit.Must(t)(m.Lock(background, holdfast.FixedLease(time.Minute)))
		mine, theirs := h.Parts()[0].Owner(), h.Parts()[1].Owner()
		for _, name := range []string{"a", "c", "d"} {
			w.WantCount(name, mine, 1)
		}
		v.WantCount("b", theirs, 1)
		in := kit.Must(t)(inner.Lock(h.Context()))
		if in.Parts()[0].Owner() != theirs || in.Parts()[1].Owner() != mine {
			t.Errorf("owners %v and %v, want %v and %v", in.Parts()[0].Owner(), in.Parts()[1].Owner(), theirs, mine)
		}
		w.WantCount("d", mine, 2)
		v.WantCount("b", theirs, 2)
		if err := h.Extend(background, time.Hour); err != nil {
			t.Error(err)
		}
		if left := time.Until(h.Deadline()); left < 59*time.Minute {
			t.Errorf("deadline in %v", left)
		}
		kit.Unlock(t, in)
		w.WantCount("d", mine, 1)
		kit.Unlock(t, h)
	})
}

func TestMultiLockOfBadInput(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithMargin(time.Second))
		seen := kit.Count(d)
		var none *holdfast.Mutex
		for i, m := range []*holdfast.MultiLock{
			holdfast.NewMultiLock(), holdfast.NewMultiLock(nil), holdfast.NewMultiLock(c.NewMutex("a"), none),
			holdfast.NewMultiLock(holdfast.NewMultiLock()),
			holdfast.NewMultiLock(c.NewFairMutex("a"), c.NewMutex("b"), c.NewMutex("a")), // two kinds of one name
			holdfast.NewMultiLock(c.NewMutex("a"), holdfast.NewMultiLock(c.NewRWMutex("a"))),
			holdfast.NewMultiLock(holdfast.NewRedLock()),
			holdfast.NewMultiLock(c.NewMutex("a"), c.NewMutex("b", nil)),
		} {
			_, err := m.Lock(background)
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%d: %v", i, err)
			}
		}
		m := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...)
		for _, row := range []struct {
			err error
			get func() (*holdfast.Hold, error)
		}{
			{holdfast.ErrInvalid, func() (*holdfast.Hold, error) {
				return holdfast.NewMultiLock(kit.Mutexes(c, "a", "b}")...).Lock(background)
			}},
			{holdfast.ErrInvalid, func() (*holdfast.Hold, error) { return m.Lock(background, holdfast.FixedLease(0)) }},
			{holdfast.ErrInvalid, func() (*holdfast.Hold, error) { return m.Lock(background, holdfast.FixedLease(time.Second)) }},
			{holdfast.ErrInvalid, func() (*holdfast.Hold, error) { return m.Lock(background, nil) }},
			{holdfast.ErrInvalid, func() (*holdfast.Hold, error) { return m.TryLock(background, nil) }},
			{holdfast.ErrInvalid, func() (*holdfast.Hold, error) {
				return m.Lock(holdfast.WithOwner(background, holdfast.Owner{}))
			}},
		} {
			_, err := row.get()
			kit.WantError(t, err, row.err)
		}
		if n := seen.All(); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

// A Locker from elsewhere can be a part.
type elsewhere struct{ holdfast.Locker }

func TestMultiLockOfOtherLockers(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := holdfast.NewMultiLock(elsewhere{c.NewMutex("b")}, elsewhere{c.NewMutex("a")})
		h := kit.Must(t)(m.Lock(background))
		w.WantCount("a", h.Parts()[0].Owner(), 1)
		w.WantCount("b", h.Parts()[1].Owner(), 1)
		_, err := m.TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		w.Do("DEL", "a")
		kit.LostAt(t, h, time.Now())
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

// Each fault, at an acquire, a release and a renewal: what stands in Redis is what is
// held, and in the end nothing.
func TestS13_FaultsOfAMultiLockHaveNoSecondEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, script := range []string{"acquire", "release", "renew"} {
			t.Run(fmt.Sprintf("%s/%s", name, script), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) { faultyMultiLock(t, w, script, fault) })
			})
		}
	}
}

func faultyMultiLock(t *testing.T, w *kit.World, script string, fault memdriver.Fault) {
	c, d := w.Client()
	m := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b", "c")...)
	kit.Once(d, script, fault)
	h := kit.Must(t)(m.Lock(background))
	for _, name := range []string{"a", "b", "c"} {
		w.WantCount(name, h.Owner(), 1)
	}
	time.Sleep(25 * time.Second) // whatever was delayed has come by now
	for _, name := range []string{"a", "b", "c"} {
		w.WantCount(name, h.Owner(), 1)
	}
	if h.Context().Err() != nil {
		t.Errorf("lost: %v", context.Cause(h.Context()))
	}
	kit.Unlock(t, h)
	w.WantReply("", "KEYS", "*")
	time.Sleep(time.Minute)
	w.WantReply("", "KEYS", "*")
	seen := kit.Count(d)
	time.Sleep(time.Hour)
	if n := seen.All(); n != 0 {
		t.Errorf("%d calls after the last unlock", n)
	}
}

// Nested, and unlocked at once: a delayed send does not take again what has been given
// back meanwhile.
func TestLateMultiAcquireTakesNothingBack(t *testing.T) {
	for name, fault := range kit.Faults {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				m := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...)
				owner := holdfast.WithOwner(background, c.NewOwner())
				outer := kit.Must(t)(c.NewMutex("a").Lock(owner))
				kit.Once(d, "acquire", fault)
				h := kit.Must(t)(m.Lock(owner))
				w.WantCount("a", h.Owner(), 2)
				w.WantCount("b", h.Owner(), 1)
				kit.Unlock(t, h)
				w.WantCount("a", h.Owner(), 1)
				time.Sleep(30 * time.Second)
				w.WantCount("a", h.Owner(), 1)
				w.WantReply("a", "KEYS", "*")
				kit.Unlock(t, outer)
				time.Sleep(30 * time.Second)
				w.WantReply("", "KEYS", "*")
			})
		})
	}
}

func TestS27_CancelledMultiLocksLeaveNothing(t *testing.T) {
	slow := memdriver.Fault{DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond}
	for name, fault := range map[string]memdriver.Fault{
		"slow":       slow,
		"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
		"very late":  {DelayRequest: 2200 * time.Millisecond},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 35 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/cancelled after %v", name, after), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					kit.Silent(d, fault)
					ctx, cancel := context.WithTimeout(background, after)
					defer cancel()
					h, err := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(ctx)
					if err == nil { // the very moment
						kit.Unlock(t, h)
					} else {
						kit.WantError(t, err, context.DeadlineExceeded)
					}
					d.SetFaults(nil)
					time.Sleep(10 * time.Second)
					w.WantReply("", "KEYS", "*")
				})
			})
		}
	}
}

// L18: locks of one name on two servers cannot be put in order, so nobody waits
// for the one while having the other.
func TestL18_SameNameOnTwoServers(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		v := w.Further()
		var wg sync.WaitGroup
		var inside atomic.Int32
		for i := range 4 {
			a, _ := w.Client()
			b, _ := v.Client()
			x, y := a.NewMutex("x"), b.NewMutex("x")
			if i%2 == 0 {
				x, y = y, x
			}
			wg.Go(func() {
				for range 20 {
					h, err := holdfast.NewMultiLock(x, y).Lock(background)
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) > 1 {
						t.Error("two holders")
					}
					time.Sleep(5 * time.Millisecond)
					inside.Add(-1)
					kit.Unlock(t, h)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// The wait is bounded when a server is down, too, and what was taken on the
// others is given back.
func TestMultiLockWithAServerDown(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		v := w.Further()
		a, _ := w.Client()
		b, d := v.Client()
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		for _, name := range []string{"x", "y"} { // tied, and not
			m := holdfast.NewMultiLock(a.NewMutex("x"), b.NewMutex(name))
			for _, wait := range []time.Duration{time.Second, time.Hour} {
				start := time.Now()
				_, err := m.Lock(background, holdfast.Wait(wait))
				var failed *holdfast.BackendError
				if !errors.As(err, &failed) || errors.Is(err, holdfast.ErrLocked) {
					t.Errorf("%v", err)
				}
				// A send of the call before may keep its place in the line until its limit.
				if took := time.Since(start); took > min(wait, holdfast.DefaultTimeout+2*time.Second) {
					t.Errorf("Wait(%v): took %v", wait, took)
				}
				synctest.Wait()
				w.WantReply("", "KEYS", "*")
			}
		}
	})
}

// TestMultiLockAfterItsWait: the last of two that are not waited for is granted in time, and handed out too late.
func TestMultiLockAfterItsWait(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Further().Client(holdfast.WithHooks(holdfast.Hooks{
			OnAcquire: func(context.Context, holdfast.Event) { time.Sleep(1050 * time.Millisecond) },
		}))
		_, err := holdfast.NewMultiLock(a.NewMutex("x"), b.NewMutex("x")).Lock(background, holdfast.Wait(time.Second))
		var failed *holdfast.BackendError
		if !errors.As(err, &failed) || !failed.MayHaveRun {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
	})
}

// One client is closed: the hold ends with that cause, and the others' parts are
// given back at Unlock.
func TestCloseEndsAMultiLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		m := holdfast.NewMultiLock(a.NewMutex("a"), b.NewMutex("b"))
		h := kit.Must(t)(m.Lock(background))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(h.Context()); cause != holdfast.ErrClosed { //nolint:errorlint // unwrapped
			t.Errorf("cause %v", cause)
		}
		w.WantCount("a", h.Parts()[0].Owner(), 1)
		kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		w.WantReply("", "KEYS", "*")
		_, err := m.Lock(background)
		kit.WantError(t, err, holdfast.ErrClosed)
		w.WantReply("", "KEYS", "*")
	})
}

// One call that waits ends when a client of its parts is closed.
func TestCloseEndsAWaitingMultiLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		o, _ := w.Client()
		h := kit.Must(t)(o.NewMutex("b").Lock(background))
		for _, c := range []*holdfast.Client{a, b} {
			time.AfterFunc(time.Second, func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			_, err := holdfast.NewMultiLock(a.NewMutex("a"), b.NewMutex("b")).Lock(background)
			kit.WantError(t, err, holdfast.ErrClosed)
			synctest.Wait()
			w.WantReply("b", "KEYS", "*")
		}
		kit.Unlock(t, h)
	})
}

// WithMaxHold bounds the parts, and a fixed lease that fits in it is had,
// however long the others had to be waited for.
func TestMultiLockWithMaxHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithMaxHold(10 * time.Second))
		o, _ := w.Client()
		h := kit.Must(t)(o.NewMutex("b").Lock(background))
		time.AfterFunc(5*time.Second, func() { kit.Unlock(t, h) })
		start := time.Now()
		m := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background, holdfast.FixedLease(8*time.Second)))
		if took := kit.LostAt(t, m, start); took > 10*time.Second || took < 9800*time.Millisecond {
			t.Errorf("lost after %v", took)
		}
		kit.WantError(t, m.Unlock(), holdfast.ErrLost)
	})
}

// A part that is unlocked by itself is lost for the whole.
func TestPartUnlockedByItself(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(background))
		kit.Unlock(t, h.Parts()[0])
		kit.LostAt(t, h, time.Now())
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

// The caller's context ends: the parts are held until Unlock, as with one lock.
func TestMultiLockOutlivesItsContext(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		ctx, cancel := context.WithCancel(background)
		h := kit.Must(t)(holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...).Lock(ctx))
		cancel()
		time.Sleep(time.Minute)
		w.WantCount("a", h.Owner(), 1)
		if h.Context().Err() == nil {
			t.Error("the hold's context goes on")
		}
		kit.Unlock(t, h)
	})
}

// The owner's other goroutine waits for one of the locks: the multi-lock waits,
// too, instead of failing.
func TestMultiLockBesideItsOwner(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		o, _ := w.Client()
		h := kit.Must(t)(o.NewMutex("b").Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		var wg sync.WaitGroup
		for _, l := range []holdfast.Locker{c.NewMutex("b"), holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...)} {
			wg.Go(func() {
				h, err := l.Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				kit.Unlock(t, h)
			})
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		kit.Unlock(t, h)
		wg.Wait()
	})
}

// One faulty lock of many: Redis refuses it for good.
func TestMultiLockRefusedByTheServer(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		w.Do("SET", "b", "no lock")
		m := holdfast.NewMultiLock(kit.Mutexes(c, "a", "b")...)
		seen := kit.Count(d)
		_, err := m.Lock(background)
		var failed *holdfast.BackendError
		var said *driver.Error
		if !errors.As(err, &failed) || !errors.As(err, &said) {
			t.Errorf("%v", err)
		}
		if n := seen.Of("acquire"); n != 2 {
			t.Errorf("%d acquires, want one for each lock", n)
		}
		w.WantReply("b", "KEYS", "*")
		w.Do("DEL", "b")
	})
}

// TestMultiLockWhoseFirstClientIsClosed: what it has of the others is given back in the background, once its time is over.
func TestMultiLockWhoseFirstClientIsClosed(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		first, _ := w.Client()
		second, d := w.Client()
		third, _ := w.Client()
		theirs := kit.Must(t)(third.NewMutex("c").Lock(background))
		kit.Once(d, "release", memdriver.Fault{LoseRequest: true})
		m := holdfast.NewMultiLock(first.NewMutex("a"), second.NewMutex("b"), third.NewMutex("c"))
		start := time.Now()
		got := kit.Begin(func() (*holdfast.Hold, error) { return m.Lock(background, holdfast.Wait(time.Second)) })
		kit.OK(t, first.Close())
		kit.WantError(t, (<-got).Err, holdfast.ErrClosed)
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(5 * time.Second)
		w.WantReply("0", "EXISTS", "b")
		kit.Unlock(t, theirs)
	})
}

// TestMultiLockOfARedLockWhoseFirstClientIsClosed: the same for a part that is itself a hold of several.
func TestMultiLockOfARedLockWhoseFirstClientIsClosed(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 4)
		other, _ := s.Worlds[3].Client()
		theirs := kit.Must(t)(other.NewMutex("b").Lock(background))
		red := holdfast.NewRedLock(s.Clients[0].NewMutex("a"), s.Clients[1].NewMutex("a"), s.Clients[2].NewMutex("a"))
		m := holdfast.NewMultiLock(red, s.Clients[3].NewMutex("b"))
		ctx, cancel := context.WithCancel(background)
		waits := kit.Begin(func() (*holdfast.Hold, error) { return m.Lock(ctx) })
		time.Sleep(time.Second)
		kit.OK(t, s.Clients[0].Close())
		s.Fault(memdriver.Fault{LoseRequest: true}, 1, 2)
		start := time.Now()
		cancel()
		kit.WantError(t, (<-waits).Err, context.Canceled)
		if took := time.Since(start); took > 0 {
			t.Errorf("its context has ended, and it returned %v later", took)
		}
		s.Fault(memdriver.Fault{}, 1, 2)
		kit.Unlock(t, theirs)
		time.Sleep(2 * time.Minute)
	})
}
