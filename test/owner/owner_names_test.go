package owner

import (
	"testing"

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
		for _, name := range []string{"{b}", "{a}b", "b{a}", "{a}{b}", "{{a}", "a:b"} {
			kit.Unlock(t, kit.Must(t)(c.NewMutex(name).TryLock(background)))
		}
		_, err = c.NewMutex("b").TryLock(background)
		kit.WantError(t, err, holdfast.ErrInvalid)
		other, _ := w.Client()
		kit.Unlock(t, kit.Must(t)(other.NewMutex("{a}").TryLock(background)))
	})
}
