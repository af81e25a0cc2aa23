package hold

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestWaitIsNotExceeded by a first attempt that fails at once, so that there is a pause before the second one.
func TestWaitIsNotExceeded(t *testing.T) {
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		kit.Silent(d, memdriver.Fault{Refuse: driver.ConnectionError(errors.New("reset"), false)})
		start := time.Now()
		_, err := w.Lock(c).Lock(background, holdfast.Wait(5*time.Millisecond))
		if took := time.Since(start); took != 5*time.Millisecond || !errors.As(err, new(*holdfast.BackendError)) {
			t.Errorf("%v after %v", err, took)
		}
		d.SetFaults(nil)
	})
}
