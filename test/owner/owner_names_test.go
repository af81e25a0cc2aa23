package owner

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestTwoSpellingsOfAName share the keys beside the lock, of whichever kind it is: a client refuses the second one. Others are other names.
func TestTwoSpellingsOfAName(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		one := c.NewMutex("a")
		kit.Unlock(t, kit.Must(t)(one.TryLock(background)))
		_, err := c.NewMutex("{a}").TryLock(background)
		kit.WantError(t, err, holdfast.ErrInvalid)
		_, err = c.NewRWMutex("{a}").TryRLock(background)
		kit.WantError(t, err, holdfast.ErrInvalid)
		kit.Unlock(t, kit.Must(t)(one.TryLock(background)))
		kit.Unlock(t, kit.Must(t)(c.NewMutex("a").TryLock(background)))
		for _, name := range []string{"{a}b", "b{a}", "{a}{b}", "{{a}", "a:b", "{b}"} {
			kit.Unlock(t, kit.Must(t)(c.NewMutex(name).TryLock(background)))
		}
		_, err = c.NewMutex("b").TryLock(background) // right after {b}: others may make the client forget it
		kit.WantError(t, err, holdfast.ErrInvalid)
		other, _ := w.Client()
		kit.Unlock(t, kit.Must(t)(other.NewMutex("{a}").TryLock(background)))
	})
}

// Two clients are not told that they use both spellings, and docs/kinds/mutex.md says what these share: a line, and held permits, but not the lock.
func TestTwoSpellingsOfTwoClients(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		one, _ := w.Client()
		other, _ := w.Client()
		try := func(mu *holdfast.Mutex) error {
			h, err := mu.TryLock(background)
			if err == nil {
				kit.Unlock(t, h)
			}
			return err
		}
		h := kit.Must(t)(one.NewFairMutex("a").Lock(background))
		kit.OK(t, try(other.NewFairMutex("{a}")))
		next := kit.Waiting(t, one.NewFairMutex("a"), background)
		var locked *holdfast.LockedError
		if err := try(other.NewFairMutex("{a}")); !errors.As(err, &locked) || !locked.Holder.IsZero() {
			t.Errorf("behind a waiter for a: %v", err)
		}
		kit.Unlock(t, h)
		kit.Unlock(t, <-next)
		kit.OK(t, try(other.NewFairMutex("{a}")))

		permits := other.NewPermitSemaphore("{p}", holdfast.Permits(3))
		kit.Unlock(t, kit.Must(t)(permits.TryLock(background)))
		h = kit.Must(t)(one.NewPermitSemaphore("p", holdfast.Permits(3)).TryLock(background))
		state, err := permits.Inspect(background)
		kit.OK(t, err)
		if len(state.Holders) != 1 || state.Permits != 4 {
			t.Errorf("{p} has %d permits, held by %v", state.Permits, state.Holders)
		}
		kit.Unlock(t, h)
		time.Sleep(kit.CallsLive)
		w.Do("DEL", "p", "{p}")
	})
}
