package hold

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Bad input is refused with a typed error, and nothing is sent.
func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	fake(t, func(s *stage) {
		seen := kit.Count(s.d)
		refused := func(what any, errs ...error) {
			s.Helper()
			for i, err := range errs {
				if !errors.Is(err, holdfast.ErrInvalid) {
					s.Errorf("%q, call %d: %v", what, i, err)
				}
			}
		}
		for _, name := range []string{
			"", "{", "}", "{}", "{}a", "a{}b", "a}b", "a{", "{a", "}a{b}", "a{b", strings.Repeat("x", 1025),
		} {
			mu := s.c.NewMutex(name)
			refused(name, kit.ErrOf(mu.Lock(background)), kit.ErrOf(mu.TryLock(background)), kit.ErrOf(mu.Inspect(background)),
				kit.ErrOf(mu.ForceUnlock(background)), kit.ErrOf(mu.Adopt(background, s.c.NewOwner())))
		}
		for _, lease := range []time.Duration{0, -1, 100 * time.Nanosecond, holdfast.MaxLease + 1, math.MaxInt64, math.MinInt64} {
			refused(lease, kit.ErrOf(s.l.Lock(background, holdfast.FixedLease(lease))), kit.ErrOf(holdfast.New(s.d, holdfast.WithLease(lease))))
		}
		refused("options", kit.ErrOf(s.l.Lock(background, nil)), kit.ErrOf(s.l.Lock(background, holdfast.Wait(-1))), kit.ErrOf(s.l.TryLock(background, nil)))
		refused("no owner", kit.ErrOf(s.l.Lock(holdfast.WithOwner(background, holdfast.Owner{}))), kit.ErrOf(s.l.Adopt(background, holdfast.Owner{})))
		for i, option := range []holdfast.ClientOption{
			nil, holdfast.WithTenant(""), holdfast.WithTenant(strings.Repeat("x", 129)), holdfast.WithMargin(-1), holdfast.WithMargin(time.Hour), holdfast.WithTimeout(0), holdfast.WithTimeout(2 * time.Hour),
			holdfast.WithReplicaAck(0, time.Second), holdfast.WithReplicaAck(1, 0), holdfast.WithReplicaAck(1, 2*time.Hour),
		} {
			refused(i, kit.ErrOf(holdfast.New(s.d, option)))
		}
		for i, none := range []driver.Driver{nil, (*memdriver.Driver)(nil), (*memdriver.Server)(nil).Driver(), new(memdriver.Driver)} {
			refused(i, kit.ErrOf(holdfast.New(none)))
		}
		for i, options := range [][]holdfast.MutexOption{
			{nil},
			{holdfast.Fenced(nil)},
			{holdfast.Fenced(holdfast.TokenTTL(0))},
			{holdfast.Polling(0, 0)},
			{holdfast.Polling(-time.Second, -time.Second)},
			{holdfast.Polling(time.Second, time.Millisecond)},
		} {
			refused(i, kit.ErrOf(s.c.NewMutex("a", options...).Lock(background)))
		}
		if n := seen.All(); n != 0 {
			s.Errorf("%d calls were sent", n)
		}
	})
}

// Leases that could never be trusted are refused.
func TestTinyLease(t *testing.T) {
	kinds(t, func(s *stage) {
		for _, lease := range []time.Duration{time.Millisecond, 2 * time.Millisecond, time.Second} {
			kit.Fails(s.T, holdfast.ErrInvalid)(s.l.Lock(background, holdfast.FixedLease(lease)))
		}
		kit.Fails(s.T, holdfast.ErrInvalid)(s.l.Lock(background, holdfast.RenewedLease(2*time.Second)))
	}, holdfast.WithMargin(time.Second))
}

// A lease is renewed or it is not.
func TestContradictingLeases(t *testing.T) {
	fake(t, func(s *stage) {
		c, fixed, renewed := s.c, holdfast.FixedLease(time.Second), holdfast.RenewedLease(2*time.Second)
		for _, l := range []holdfast.Locker{
			s.l, c.NewRWMutex("x"), c.NewRWMutex("x").RLocker(), c.NewPermitSemaphore("x"), holdfast.NewMultiLock(s.l, c.NewMutex("{x}2")),
		} {
			for _, options := range [][]holdfast.TryOption{{fixed, renewed}, {renewed, fixed}} {
				kit.Fails(s.T, holdfast.ErrInvalid)(l.TryLock(background, options...))
			}
		}
		s.Unlock(s.Must(s.l.TryLock(background, renewed, holdfast.RenewedLease(3*time.Second)))) // the last of one kind counts
	})
}

// A nil context, and a Client that New has not made, panic with a sentence at once.
func TestMissingArgumentsPanic(t *testing.T) {
	fake(t, func(s *stage) {
		var none context.Context
		for what, call := range map[string]func(){
			"Lock":     func() { _, _ = s.l.Lock(none) },
			"TryLock":  func() { _, _ = s.c.NewRWMutex("x").RLocker().TryLock(none) },
			"Inspect":  func() { _, _ = s.l.Inspect(none) },
			"Adopt":    func() { _, _ = s.l.Adopt(none, s.c.NewOwner()) },
			"Acquire":  func() { _, _ = s.c.NewPermitSemaphore("s", holdfast.Permits(1)).Acquire(none, 1) },
			"Await":    func() { _ = s.c.NewLatch("x").Await(none) },
			"several":  func() { _, _ = holdfast.NewMultiLock(s.l, s.c.NewMutex("{x}2")).Lock(none) },
			"NewMutex": func() { new(holdfast.Client).NewMutex("x") },
			"NewLatch": func() { (*holdfast.Client)(nil).NewLatch("x") },
		} {
			if text, _ := panics(call).(string); !strings.HasPrefix(text, "holdfast: ") {
				s.Errorf("%s: %q", what, text)
			}
		}
	})
}

// A16: a hold is given back by itself alone. An owner that is used again, or
// somebody else with the same owner, cannot take it along.
func TestA16_UnlockMatchesItsOwnHold(t *testing.T) {
	nesting(t, func(s *stage) {
		first, second := s.in(s.ctx), s.in(s.ctx)
		s.Unlock(first) // in any order
		kit.WantError(s.T, first.Unlock(), holdfast.ErrNotHeld)
		kit.WantError(s.T, first.Unlock(), holdfast.ErrNotHeld)
		s.alone(second)
		s.free()
	})
}

// One who polls listens to nobody, and says nothing when it gives back. Of a plain mutex, this test hears something.
func TestPollingIsSilent(t *testing.T) {
	kinds(t, func(s *stage) {
		var messages atomic.Int32
		listener := s.Server.Driver().Listen(func(e driver.Event) {
			if e.Kind == driver.Message {
				messages.Add(1)
			}
		})
		defer listener.Close()
		listener.Subscribe(s.Kind.Channel("x"))
		h := s.heldByOther()
		next := kit.Waiting(s.T, s.l, background)
		channels := s.Do("PUBSUB", "CHANNELS", "*x*")
		start := time.Now()
		s.Unlock(h)
		h = <-next
		s.within(start, 0, 200*time.Millisecond)
		s.Unlock(h)
		synctest.Wait()
		silent := messages.Load() == 0 && channels == s.Kind.Channel("x")
		if s.Kind.Polling && !silent || s.Kind == kit.MutexKind && silent {
			s.Errorf("%d messages, and this test and others listen: %s", messages.Load(), channels)
		}
	})
}
