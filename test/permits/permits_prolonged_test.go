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
			on(t, "permits", 1, func(s *stage) {
				start := time.Now()
				h := s.acquire(1, holdfast.FixedLease(lease))
				time.Sleep(200 * time.Millisecond)
				kit.OK(s.T, s.theirs.ExtendPermit(background, h.PermitIDs()[0], time.Minute))
				if lease > time.Second {
					time.Sleep(lease)
					synctest.Wait()
					trustedFor(s.T, h, time.Minute-lease)
				}
				if lost := kit.LostAt(s.T, h, start); lease < time.Second && lost != lease-lease/100-2*time.Millisecond {
					s.T.Errorf("lost after %v", lost)
				}
				time.Sleep(lease) // by then nothing would be left of it, had nobody prolonged it
				want(s.T, 1)(kit.Available(s.theirs))
			})
		})
	}
}
