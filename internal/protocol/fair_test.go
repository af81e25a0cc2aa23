package protocol

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
)

// The golden names of a fair lock, as Redisson spells them; all but the
// heartbeats.
func TestGoldenNamesOfAFairLock(t *testing.T) {
	const owner = "00000000-0000-4000-8000-000000000000:7"
	for _, row := range []struct{ name, tail string }{
		{"myLock", ":{myLock}"},
		{"{test}:abc:key", ":{test}:abc:key"},
	} {
		for got, want := range map[string]string{
			FairQueueKey(row.name):         "redisson_lock_queue" + row.tail,
			FairTimeoutsKey(row.name):      "redisson_lock_timeout" + row.tail,
			FairHeartbeatsKey(row.name):    "holdfast_lock_waiting" + row.tail,
			WaiterChannel(row.name, owner): "redisson_lock__channel" + row.tail + ":" + owner,
		} {
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if script.Slot(got) != script.Slot(row.name) {
				t.Errorf("%q is not in the lock's slot", got)
			}
		}
	}
}
