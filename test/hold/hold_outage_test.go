package hold

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestOutageOfAWaiterIsTold by OnError, once, since no call returns it. Only the first of several asks, but for a fair lock.
func TestOutageOfAWaiterIsTold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		told := make(chan error, 10)
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{
			OnError: func(_ context.Context, e holdfast.Event) { told <- e.Err },
		}))
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		one, two := kit.Waiting(t, w.Lock(c), background), kit.Waiting(t, w.Lock(c), background)
		time.Sleep(5 * time.Second)
		kit.Away(d)
		time.Sleep(40 * time.Second)
		want := 1
		if w.Kind.AlwaysListed {
			want = 2
		}
		if len(told) != want {
			t.Errorf("told %d times, want %d", len(told), want)
		}
		for range len(told) {
			if err := <-told; !errors.As(err, new(*holdfast.BackendError)) {
				t.Error(err)
			}
		}
		d.SetFaults(nil)
		kit.Unlock(t, theirs)
		for _, got := range []<-chan *holdfast.Hold{one, two} {
			if h, ok := <-got; ok {
				kit.Unlock(t, h)
			}
		}
	})
}
