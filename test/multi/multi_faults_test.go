package multi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMultiLockTakesAll(t *testing.T) {
	fake(t, 1, func(s *stage) {
		seen := kit.Count(s.d)
		m := s.multi("b", "a", "c")
		for _, lock := range []func() (*holdfast.Hold, error){
			func() (*holdfast.Hold, error) { return m.Lock(background) },
			func() (*holdfast.Hold, error) { return m.TryLock(background) },
		} {
			before := seen.All()
			h := kit.Must(t)(lock())
			if n := seen.All() - before; n != 3 {
				t.Errorf("%d calls, want one for each lock", n)
			}
			for _, name := range []string{"a", "b", "c"} {
				s.WantCount(name, h.Owner(), 1)
			}
			parts := h.Parts()
			if m.Name() != "a+b+c" || h.Name() != "a+b+c" || h.Token() != 0 || len(parts) != 3 || parts[1].Name() != "b" {
				t.Errorf("names %q and %q, token %d, parts %v", m.Name(), h.Name(), h.Token(), parts)
			}
			if d := time.Until(h.Deadline()); d > 30*time.Second || d < 29*time.Second {
				t.Errorf("deadline in %v", d)
			}
			time.Sleep(time.Minute) // renewed
			s.trusts(h)
			s.Unlock(h)
			if cause := context.Cause(h.Context()); cause != context.Canceled { //nolint:errorlint // unwrapped
				t.Errorf("cause %v", cause)
			}
			if !h.Deadline().IsZero() {
				t.Errorf("deadline %v after Unlock", h.Deadline())
			}
			kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
			kit.WantError(t, h.Extend(background, time.Minute), holdfast.ErrNotHeld)
			s.keys("")
		}
	})
}

func TestMultiLockRefusedTakesNothing(t *testing.T) {
	fake(t, 1, func(s *stage) {
		h, m := s.heldByOther("b"), s.multi("a", "b", "c")
		start := time.Now()
		for _, wait := range []time.Duration{0, 5 * time.Second} {
			_, err := m.Lock(background, holdfast.Wait(wait))
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || locked.Name != "b" || locked.Holder != h.Owner() || locked.TTL <= 0 {
				t.Errorf("%#v", err)
			}
			s.within(start, wait)
			synctest.Wait() // the wait is over, so it is given back in the background
			s.keys("b")
		}
		kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background))
		s.keys("b")
		ctx, cancel := context.WithCancelCause(background)
		why := errors.New("changed my mind")
		time.AfterFunc(time.Second, func() { cancel(why) })
		kit.Fails(t, context.Canceled, why)(m.Lock(ctx))
		time.Sleep(time.Second)
		s.keys("b")
		s.Unlock(h)
	})
}

// A multi-lock waits for each lock where those who want only that one wait, so
// it does not starve.
func TestMultiLockWaitsInTurn(t *testing.T) {
	fake(t, 1, func(s *stage) {
		ha, hb := s.heldByOther("a"), s.heldByOther("b")
		start := time.Now()
		got := kit.Waiting(t, s.multi("b", "a"), background)
		time.Sleep(time.Minute)
		s.Unlock(ha)
		time.Sleep(time.Second)
		if n := s.PTTL("a"); n <= 0 {
			t.Error("a is not held while b is waited for")
		}
		time.Sleep(time.Minute) // a is renewed meanwhile
		s.Unlock(hb)
		h := <-got
		s.within(start, 2*time.Minute+time.Second)
		s.Unlock(h)
	})
}

// S22, S23: a fixed lease is asked for once, counts from when all are had, and
// is not shorter for those that were had first.
func TestS22_S23_FixedLeaseCountsFromTheLast(t *testing.T) {
	for _, lease := range []time.Duration{100 * time.Millisecond, 5 * time.Second, time.Hour} {
		fake(t, 1, func(s *stage) {
			h := s.heldByOther("b")
			time.AfterFunc(20*time.Second, func() { s.Unlock(h) })
			start := time.Now()
			m := s.lock(s.multi("a", "b"), holdfast.FixedLease(lease))
			s.within(start, 20*time.Second)
			for _, name := range []string{"a", "b"} {
				if ttl := s.PTTL(name); ttl != lease {
					t.Errorf("TTL of %q %v, want %v", name, ttl, lease)
				}
			}
			s.d.SetFaults(func(call driver.Call) memdriver.Fault {
				if call.Script.Name() == "renew" && call.Args[len(call.Args)-1] != "0" { // else it only asks
					t.Error("a fixed lease is renewed")
				}
				return memdriver.Fault{}
			})
			trusted := lease - lease/100 - 2*time.Millisecond
			left := time.Until(m.Deadline())
			if took := kit.LostAt(t, m, time.Now()); left != trusted || took != trusted {
				t.Errorf("deadline in %v, and lost after %v, want %v", left, took, trusted)
			}
			kit.WantError(t, m.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		})
	}
}

// S23: a part that is lost while others are waited for is not counted as held.
func TestS23_LostWhileGathering(t *testing.T) {
	fake(t, 1, func(s *stage) {
		hb := s.heldByOther("b")
		got := kit.Waiting(t, s.multi("a", "b"), background)
		time.Sleep(2 * time.Second)
		kit.Force(t, s.other.NewMutex("a"))
		thief := s.heldByOther("a")
		time.Sleep(100 * time.Millisecond) // until then a forced unlock may be unnoticed
		s.Unlock(hb)
		time.Sleep(time.Minute)
		select {
		case h := <-got:
			t.Fatalf("%v holds all, and %v holds a", h.Owner(), thief.Owner())
		default:
		}
		s.keys("a holdfast_requests:{a} holdfast_waitlist:{a}") // b is not kept from others for that long
		s.Unlock(thief)
		h := <-got
		s.WantCount("a", h.Owner(), 1)
		s.WantCount("b", h.Owner(), 1)
		s.Unlock(h)
	})
}

// A part that is taken away, or unlocked by itself, is lost for the whole.
func TestMultiLockEndsWithAnyPart(t *testing.T) {
	fake(t, 1, func(s *stage) {
		h := s.lock(s.multi("a", "b"))
		s.Unlock(h.Parts()[0])
		kit.LostAt(t, h, time.Now())
		s.Lost(h)
	})
	for _, name := range []string{"a", "b", "c"} {
		fake(t, 1, func(s *stage) {
			h := s.lock(s.multi("a", "b", "c"), holdfast.WithHooks(holdfast.Hooks{OnLost: func(_ context.Context, e holdfast.Event) {
				if e.Name != "a+b+c" || !errors.Is(e.Err, holdfast.ErrLost) || !strings.Contains(e.Err.Error(), `"`+name+`"`) {
					t.Errorf("%+v", e)
				}
			}}))
			time.Sleep(2 * time.Second)
			start := time.Now()
			kit.Force(t, s.c.NewMutex(name))
			kit.Took(t, kit.LostAt(t, h, start), 0, 100*time.Millisecond, "told after %v")
			for _, p := range h.Parts() {
				if p.Context().Err() == nil {
					t.Errorf("the context of %q goes on", p.Name())
				}
			}
			kit.WantError(t, h.Extend(background, time.Minute), holdfast.ErrLost)
			kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
			synctest.Wait()
			s.keys("")
		})
	}
}

// A4: Unlock gives back what it can, and tells of every lock that was lost.
func TestA4_UnlockReleasesAllAndJoinsErrors(t *testing.T) {
	fake(t, 1, func(s *stage) {
		h := s.lock(s.multi("a", "b", "c", "d"))
		s.Do("DEL", "a", "c")
		err := h.Unlock()
		kit.WantError(t, err, holdfast.ErrLost)
		for name, lost := range map[string]bool{"a": true, "b": false, "c": true, "d": false} {
			if strings.Contains(fmt.Sprint(err), `"`+name+`"`) != lost {
				t.Errorf("%v: %s lost %v", err, name, lost)
			}
		}
		s.keys("")
	})
}

// A5: multi-locks nest, with a lease, too.
func TestA5_NestedMultiLocks(t *testing.T) {
	fake(t, 2, func(s *stage) {
		v, e := s.Worlds[1], s.Clients[1]
		inner := holdfast.NewMultiLock(e.NewMutex("b"), s.c.NewMutex("d"))
		both := holdfast.NewMultiLock(inner, s.c.NewMutex("a"))
		m := holdfast.NewMultiLock(s.c.NewMutex("c"), inner, both, s.c.NewMutex("d"))
		if m.Name() != "a+b+c+d" {
			t.Errorf("name %q", m.Name())
		}
		h := s.lock(m, holdfast.FixedLease(time.Minute))
		mine, theirs := h.Parts()[0].Owner(), h.Parts()[1].Owner()
		for _, name := range []string{"a", "c", "d"} {
			s.WantCount(name, mine, 1)
		}
		v.WantCount("b", theirs, 1)
		in := kit.Must(t)(inner.Lock(h.Context()))
		s.WantCount("d", mine, 2)
		v.WantCount("b", theirs, 2)
		kit.OK(t, h.Extend(background, time.Hour))
		if left := time.Until(h.Deadline()); left < 59*time.Minute {
			t.Errorf("deadline in %v", left)
		}
		s.Unlock(in)
		s.WantCount("d", mine, 1)
		s.Unlock(h)
	})
}

func TestMultiLockOfBadInput(t *testing.T) {
	fake(t, 1, func(s *stage) {
		seen := kit.Count(s.d)
		c := s.c
		var none *holdfast.Mutex
		for i, m := range []*holdfast.MultiLock{
			holdfast.NewMultiLock(), holdfast.NewMultiLock(nil), holdfast.NewMultiLock(c.NewMutex("a"), none),
			holdfast.NewMultiLock(holdfast.NewMultiLock()),
			holdfast.NewMultiLock(c.NewFairMutex("a"), c.NewMutex("b"), c.NewMutex("a")), // two kinds of one name
			holdfast.NewMultiLock(c.NewMutex("a"), holdfast.NewMultiLock(c.NewRWMutex("a"))),
			holdfast.NewMultiLock(holdfast.NewRedLock()),
			holdfast.NewMultiLock(c.NewMutex("a"), c.NewMutex("b", nil)),
			s.multi("a", "b}"),
		} {
			if _, err := m.Lock(background); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%d: %v", i, err)
			}
		}
		m := s.multi("a", "b")
		for _, option := range []holdfast.LockOption{holdfast.FixedLease(0), holdfast.FixedLease(time.Second), nil} {
			kit.Fails(t, holdfast.ErrInvalid)(m.Lock(background, option))
		}
		kit.Fails(t, holdfast.ErrInvalid)(m.TryLock(background, nil))
		kit.Fails(t, holdfast.ErrInvalid)(m.Lock(holdfast.WithOwner(background, holdfast.Owner{})))
		if n := seen.All(); n != 0 {
			t.Errorf("%d calls", n)
		}
	}, holdfast.WithMargin(time.Second))
}

// A Locker from elsewhere can be a part.
type elsewhere struct{ holdfast.Locker }

func TestMultiLockOfOtherLockers(t *testing.T) {
	fake(t, 1, func(s *stage) {
		m := holdfast.NewMultiLock(elsewhere{s.c.NewMutex("b")}, elsewhere{s.c.NewMutex("a")})
		h := s.lock(m)
		s.WantCount("a", h.Parts()[0].Owner(), 1)
		s.WantCount("b", h.Parts()[1].Owner(), 1)
		kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background))
		s.Do("DEL", "a")
		kit.LostAt(t, h, time.Now())
		s.Lost(h)
	})
}

func TestS27_CancelledMultiLocksLeaveNothing(t *testing.T) {
	for kind, lock := range map[string]func(s *stage) *holdfast.MultiLock{
		"MultiLock": func(s *stage) *holdfast.MultiLock { return s.multi("a", "b") },
		"RedLock":   func(s *stage) *holdfast.MultiLock { return s.Redlock("x") },
	} {
		for name, fault := range map[string]memdriver.Fault{
			"slow":       {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
			"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
			"very late":  {DelayRequest: 2200 * time.Millisecond},
		} {
			for _, ms := range []int{0, 1, 15, 20, 35} {
				after := time.Duration(ms) * time.Millisecond
				t.Run(fmt.Sprintf("%s/%s/cancelled after %v", kind, name, after), func(t *testing.T) {
					fake(t, 3, func(s *stage) {
						s.Fault(fault, 0, 1, 2)
						ctx, cancel := context.WithTimeout(background, after)
						defer cancel()
						start := time.Now()
						h, err := lock(s).Lock(ctx)
						if err == nil { // the very moment, or before it
							s.Unlock(h)
						} else {
							kit.WantError(t, err, context.DeadlineExceeded)
							s.within(start, after)
						}
						s.Fault(memdriver.Fault{}, 0, 1, 2)
						time.Sleep(10 * time.Second)
						s.WantFree(t)
					})
				})
			}
		}
	}
}

// The wait is bounded when a server is down, too, and what was taken on the
// others is given back.
func TestMultiLockWithAServerDown(t *testing.T) {
	fake(t, 2, func(s *stage) {
		s.Fault(kit.LostRequest, 1)
		for _, name := range []string{"x", "y"} { // tied, and not
			m := holdfast.NewMultiLock(s.c.NewMutex("x"), s.Clients[1].NewMutex(name))
			for _, wait := range []time.Duration{time.Second, time.Hour} {
				start := time.Now()
				_, err := m.Lock(background, holdfast.Wait(wait))
				s.backend(err)
				// A send of the call before may keep its place in the line until its limit.
				s.within(start, min(wait, holdfast.DefaultTimeout+2*time.Second))
				synctest.Wait()
				s.keys("")
			}
		}
	})
}

// The last of two that are not waited for is granted in time, and handed out too late.
func TestMultiLockAfterItsWait(t *testing.T) {
	fake(t, 2, func(s *stage) {
		late := s.Again(holdfast.WithHooks(holdfast.Hooks{
			OnAcquire: func(context.Context, holdfast.Event) { time.Sleep(1050 * time.Millisecond) },
		}))
		m := holdfast.NewMultiLock(s.c.NewMutex("x"), late.Clients[1].NewMutex("x"))
		_, err := m.Lock(background, holdfast.Wait(time.Second))
		if !s.backend(err).MayHaveRun {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// One client is closed: the hold ends with that cause, and the others' parts are
// given back at Unlock.
func TestCloseEndsAMultiLock(t *testing.T) {
	fake(t, 1, func(s *stage) {
		m := holdfast.NewMultiLock(s.c.NewMutex("a"), s.other.NewMutex("b"))
		h := s.lock(m)
		kit.OK(t, s.other.Close())
		s.closed(h)
		s.WantCount("a", h.Parts()[0].Owner(), 1)
		kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		s.keys("")
		kit.Fails(t, holdfast.ErrClosed)(m.Lock(background))
		s.keys("")
	})
}

// One call that waits ends when a client of its parts is closed.
func TestCloseEndsAWaitingMultiLock(t *testing.T) {
	fake(t, 1, func(s *stage) {
		h := s.heldByOther("b")
		for i := range 2 {
			c := []*holdfast.Client{s.Again().Clients[0], s.Again().Clients[0]}
			got := begin(holdfast.NewMultiLock(c[0].NewMutex("a"), c[1].NewMutex("b")), background)
			kit.OK(t, c[i].Close())
			kit.WantError(t, (<-got).Err, holdfast.ErrClosed)
			synctest.Wait()
			s.WantReply("b", "KEYS", "?")
		}
		s.Unlock(h)
	})
}

// WithMaxHold bounds the parts, and a fixed lease that fits in it is had,
// however long the others had to be waited for.
func TestMultiLockWithMaxHold(t *testing.T) {
	fake(t, 1, func(s *stage) {
		h := s.heldByOther("b")
		time.AfterFunc(5*time.Second, func() { s.Unlock(h) })
		start := time.Now()
		m := s.lock(s.multi("a", "b"), holdfast.FixedLease(8*time.Second))
		if took := kit.LostAt(t, m, start); took > 10*time.Second || took < 9800*time.Millisecond {
			t.Errorf("lost after %v", took)
		}
		s.Lost(m)
	}, holdfast.WithMaxHold(10*time.Second))
}

// The caller's context ends: the parts are held until Unlock, as with one lock.
func TestMultiLockOutlivesItsContext(t *testing.T) {
	fake(t, 1, func(s *stage) {
		ctx, cancel := context.WithCancel(background)
		h := kit.Must(t)(s.multi("a", "b").Lock(ctx))
		cancel()
		time.Sleep(time.Minute)
		s.WantCount("a", h.Owner(), 1)
		if h.Context().Err() == nil {
			t.Error("the hold's context goes on")
		}
		s.Unlock(h)
	})
}

// TestMultiLockWhoseFirstClientIsClosed: what it has of the others is given back in the background, once its time is
// over.
func TestMultiLockWhoseFirstClientIsClosed(t *testing.T) {
	fake(t, 1, func(s *stage) {
		second, d := s.Client()
		theirs := s.heldByOther("c")
		kit.Next(d, "release", kit.LostRequest)
		m := holdfast.NewMultiLock(s.c.NewMutex("a"), second.NewMutex("b"), s.other.NewMutex("c"))
		start := time.Now()
		got := begin(m, background, holdfast.Wait(time.Second))
		kit.OK(t, s.c.Close())
		kit.WantError(t, (<-got).Err, holdfast.ErrClosed)
		s.within(start, time.Second)
		time.Sleep(5 * time.Second)
		s.WantReply("0", "EXISTS", "b")
		s.Unlock(theirs)
	})
}

// A call that is cancelled while it sets the lease of its parts does not say that Redis failed, which is about to reply.
func TestCancelledAmidTheLease(t *testing.T) {
	fake(t, 1, func(s *stage) {
		kit.All(s.d, memdriver.Fault{DelayReply: 60 * time.Millisecond})
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(150*time.Millisecond, cancel)
		_, err := s.multi("a", "b").Lock(ctx, holdfast.FixedLease(20*time.Second))
		if !errors.Is(err, context.Canceled) || errors.As(err, new(*holdfast.BackendError)) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// What a call says of its effect when its context ends is about all parts: the first one was acquired.
func TestEffectOfAnEndedCall(t *testing.T) {
	fake(t, 2, func(s *stage) {
		l := holdfast.NewMultiLock(s.Clients[0].NewMutex("a"), s.Clients[1].NewMutex("b"))
		for i, want := range []bool{false, true} {
			s.Fault(memdriver.Fault{Refuse: errors.New("dial tcp: connection refused")}, i)
			ctx, cancel := context.WithTimeout(background, time.Second)
			_, err := l.Lock(ctx)
			if failed := s.backend(err); !errors.Is(err, context.DeadlineExceeded) || failed.MayHaveRun != want {
				t.Errorf("server %d is away: %v", i, err)
			}
			cancel()
			s.Fault(memdriver.Fault{}, i)
			time.Sleep(time.Minute)
		}
	})
}
