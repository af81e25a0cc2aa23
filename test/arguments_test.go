package test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Bad input is refused with a typed error, and nothing is sent.
func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		seen := count(d)
		good := c.NewMutex("x")
		for _, name := range []string{
			"", "{", "}", "{}", "{}a", "a{}b", "a}b", "a{", "{a", "}a{b}", "a{b", strings.Repeat("x", 1025),
		} {
			mu := c.NewMutex(name)
			_, err := mu.Lock(background)
			wantError(t, err, holdfast.ErrInvalid)
			_, err = mu.TryLock(background)
			wantError(t, err, holdfast.ErrInvalid)
			_, err = mu.Inspect(background)
			wantError(t, err, holdfast.ErrInvalid)
			_, err = mu.ForceUnlock(background)
			wantError(t, err, holdfast.ErrInvalid)
			_, err = mu.Adopt(background, c.NewOwner())
			wantError(t, err, holdfast.ErrInvalid)
		}
		for _, lease := range []time.Duration{0, -1, 100 * time.Nanosecond, holdfast.MaxLease + 1, math.MaxInt64, math.MinInt64} {
			_, err := good.Lock(background, holdfast.FixedLease(lease))
			wantError(t, err, holdfast.ErrInvalid)
			_, err = holdfast.New(d, holdfast.WithLease(lease))
			wantError(t, err, holdfast.ErrInvalid)
		}
		for _, option := range []holdfast.LockOption{nil, holdfast.Wait(-1)} {
			_, err := good.Lock(background, option)
			wantError(t, err, holdfast.ErrInvalid)
		}
		_, err := good.TryLock(background, nil)
		wantError(t, err, holdfast.ErrInvalid)
		_, err = good.Lock(holdfast.WithOwner(background, holdfast.Owner{}))
		wantError(t, err, holdfast.ErrInvalid)
		_, err = good.Adopt(background, holdfast.Owner{})
		wantError(t, err, holdfast.ErrInvalid)
		for _, option := range []holdfast.ClientOption{
			nil, holdfast.WithMargin(-1), holdfast.WithMargin(time.Hour), holdfast.WithTimeout(0), holdfast.WithTimeout(2 * time.Hour),
		} {
			_, err := holdfast.New(d, option)
			wantError(t, err, holdfast.ErrInvalid)
		}
		for _, none := range []driver.Driver{nil, (*memdriver.Driver)(nil), (*memdriver.Server)(nil).Driver(), new(memdriver.Driver)} {
			_, err = holdfast.New(none)
			wantError(t, err, holdfast.ErrInvalid)
		}
		if n := seen.all(); n != 0 {
			t.Errorf("%d calls were sent", n)
		}
	})
}

func TestOwnersCanBeReadBack(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
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
	fakeNesting(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		first := must(t)(w.lock(c).Lock(ctx))
		second := must(t)(w.lock(c).Lock(ctx))
		unlock(t, first) // in any order
		wantError(t, first.Unlock(), holdfast.ErrNotHeld)
		wantError(t, first.Unlock(), holdfast.ErrNotHeld)
		w.wantCount("x", second.Owner(), 1)
		unlock(t, second)
		w.wantCount("x", second.Owner(), 0)
	})
}
