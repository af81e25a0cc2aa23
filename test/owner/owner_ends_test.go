package owner

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestRefusalOfTwoCallsOfOneOwnerThatEndTogether: the second one has asked nothing. What it is told is what the first one was refused with.
func TestRefusalOfTwoCallsOfOneOwnerThatEndTogether(t *testing.T) {
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		ctx := holdfast.WithOwner(background, c.NewOwner())
		for _, wait := range []time.Duration{time.Second, 6 * time.Second} {
			call := func() (*holdfast.Hold, error) { return w.Lock(c).Lock(ctx, holdfast.Wait(wait)) }
			first, second := kit.Begin(call), kit.Begin(call)
			for i, got := range []kit.Result{<-first, <-second} {
				var locked *holdfast.LockedError
				if !errors.As(got.Err, &locked) || locked.Holder != theirs.Owner() {
					t.Errorf("call %d of two: %v", i+1, got.Err)
				}
			}
			time.Sleep(time.Second)
		}
		kit.Unlock(t, theirs)
	})
}
