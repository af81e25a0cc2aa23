package hold

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Bad input is refused with a typed error, and nothing is sent.
func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		seen := kit.Count(d)
		good := c.NewMutex("x")
		for _, name := range []string{
			"", "{", "}", "{}", "{}a", "a{}b", "a}b", "a{", "{a", "}a{b}", "a{b", strings.Repeat("x", 1025),
		} {
			mu := c.NewMutex(name)
			kit.Fails(t, holdfast.ErrInvalid)(mu.Lock(background))
			kit.Fails(t, holdfast.ErrInvalid)(mu.TryLock(background))
			_, err := mu.Inspect(background)
			kit.WantError(t, err, holdfast.ErrInvalid)
			_, err = mu.ForceUnlock(background)
			kit.WantError(t, err, holdfast.ErrInvalid)
			kit.Fails(t, holdfast.ErrInvalid)(mu.Adopt(background, c.NewOwner()))
		}
		for _, lease := range []time.Duration{0, -1, 100 * time.Nanosecond, holdfast.MaxLease + 1, math.MaxInt64, math.MinInt64} {
			kit.Fails(t, holdfast.ErrInvalid)(good.Lock(background, holdfast.FixedLease(lease)))
			_, err := holdfast.New(d, holdfast.WithLease(lease))
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
		for _, option := range []holdfast.LockOption{nil, holdfast.Wait(-1)} {
			kit.Fails(t, holdfast.ErrInvalid)(good.Lock(background, option))
		}
		kit.Fails(t, holdfast.ErrInvalid)(good.TryLock(background, nil))
		kit.Fails(t, holdfast.ErrInvalid)(good.Lock(holdfast.WithOwner(background, holdfast.Owner{})))
		_, err := good.Adopt(background, holdfast.Owner{})
		kit.WantError(t, err, holdfast.ErrInvalid)
		for _, option := range []holdfast.ClientOption{
			nil, holdfast.WithMargin(-1), holdfast.WithMargin(time.Hour), holdfast.WithTimeout(0), holdfast.WithTimeout(2 * time.Hour),
		} {
			_, err := holdfast.New(d, option)
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
		for _, none := range []driver.Driver{nil, (*memdriver.Driver)(nil), (*memdriver.Server)(nil).Driver(), new(memdriver.Driver)} {
			_, err = holdfast.New(none)
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
		if n := seen.All(); n != 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

// A nil context, and a Client that New has not made, panic with a sentence at once.
func TestMissingArgumentsPanic(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x, s := c.NewMutex("x"), c.NewPermitSemaphore("s", holdfast.Permits(1))
		var none context.Context
		for what, call := range map[string]func(){
			"Lock":     func() { _, _ = x.Lock(none) },
			"TryLock":  func() { _, _ = c.NewRWMutex("x").RLocker().TryLock(none) },
			"Inspect":  func() { _, _ = x.Inspect(none) },
			"Adopt":    func() { _, _ = x.Adopt(none, c.NewOwner()) },
			"Acquire":  func() { _, _ = s.Acquire(none, 1) },
			"Await":    func() { _ = c.NewLatch("x").Await(none) },
			"several":  func() { _, _ = holdfast.NewMultiLock(x, c.NewMutex("{x}2")).Lock(none) },
			"NewMutex": func() { new(holdfast.Client).NewMutex("x") },
			"NewLatch": func() { (*holdfast.Client)(nil).NewLatch("x") },
		} {
			func() {
				defer func() {
					if text, _ := recover().(string); !strings.HasPrefix(text, "holdfast: ") {
						t.Errorf("%s: %q", what, text)
					}
				}()
				call()
			}()
		}
	})
}

func TestOwnersCanBeReadBack(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		owner := c.NewOwner()
		again, err := holdfast.ParseOwner(owner.String())
		if err != nil || again != owner {
			t.Errorf("ParseOwner(%q) = %v, %v", owner, again, err)
		}
		if !strings.HasPrefix(owner.String(), c.ID()+":") {
			t.Errorf("owner %q of client %q", owner, c.ID())
		}
		for _, s := range []string{
			"", ":", "a", "a:", ":1", "a:b", "a:1.5", "a:01", "a:+1", "a: 1", "a:99999999999999999999",
			strings.Repeat("0", 31), strings.Repeat("0", 34), strings.Repeat("A", 32), strings.Repeat("g", 32),
		} {
			if _, err := holdfast.ParseOwner(s); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("ParseOwner(%q): %v", s, err)
			}
		}
	})
}

// A16: a hold is given back by itself alone. An owner that is used again, or
// somebody else with the same owner, cannot take it along.
func TestA16_UnlockMatchesItsOwnHold(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		first := kit.Must(t)(w.Lock(c).Lock(ctx))
		second := kit.Must(t)(w.Lock(c).Lock(ctx))
		kit.Unlock(t, first) // in any order
		kit.WantError(t, first.Unlock(), holdfast.ErrNotHeld)
		kit.WantError(t, first.Unlock(), holdfast.ErrNotHeld)
		w.WantCount("x", second.Owner(), 1)
		kit.Unlock(t, second)
		w.WantCount("x", second.Owner(), 0)
	})
}
