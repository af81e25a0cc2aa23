package hold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestOutageOfAWaiterIsTold by OnError, once, since no call returns it. Only the first of several asks, but for a fair lock.
func TestOutageOfAWaiterIsTold(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		var told []error
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{
			OnError: func(_ context.Context, e holdfast.Event) { told = append(told, e.Err) },
		}))
		other, _ := w.Client()
		theirs := kit.Must(t)(w.Rival(other).Lock(background))
		one, two := kit.Waiting(t, w.Lock(c), background), kit.Waiting(t, w.Lock(c), background)
		time.Sleep(5 * time.Second)
		kit.Away(d)
		time.Sleep(40 * time.Second)
		want := 1
		if strings.HasPrefix(w.Kind.Name, "fair") {
			want = 2
		}
		if len(told) != want || !errors.As(told[0], new(*holdfast.BackendError)) {
			t.Errorf("told %d times, want %d: %v", len(told), want, told)
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
