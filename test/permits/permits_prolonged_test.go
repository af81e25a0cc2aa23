package permits

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// TestShortLeaseThatIsProlongedByID: a hold of less than a second does not listen, so it ends with the lease that it was acquired with. Its permit
// is given back then.
func TestShortLeaseThatIsProlongedByID(t *testing.T) {
	for _, lease := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
		t.Run(fmt.Sprint(lease), func(t *testing.T) {
			kit.PermitsWorld(t, 1, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				operator, _ := w.Client()
				s := operator.NewPermitSemaphore("x")
				start := time.Now()
				h := kit.Must(t)(c.NewPermitSemaphore("x").Lock(background, holdfast.FixedLease(lease)))
				time.Sleep(200 * time.Millisecond)
				kit.OK(t, s.ExtendPermit(background, h.PermitIDs()[0], time.Minute))
				if lease > time.Second {
					time.Sleep(lease)
					synctest.Wait()
					trustedFor(t, h, time.Minute-lease)
				}
				if lost := kit.LostAt(t, h, start); lease < time.Second && lost != lease-lease/100-2*time.Millisecond {
					t.Errorf("lost after %v", lost)
				}
				time.Sleep(lease) // by then nothing would be left of it, had nobody prolonged it
				wantFree(t, s, 1)
			})
		})
	}
}
