package protocol

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/script"
)

func TestGoldenSemaphoreNames(t *testing.T) {
	for _, row := range []struct {
		name, channel, permits, next, calls, lost, latch string
		fits                                             bool
	}{
		{
			"x", "redisson_sc:{x}", "{x}:timeout", "holdfast_next:{x}", "holdfast_calls:{x}",
			"holdfast_lost:{x}",
			"redisson_countdownlatch__channel__{x}", true,
		},
		{
			"{test}:abc:key", "redisson_sc:{test}:abc:key", "{test}:abc:key:timeout", "holdfast_next:{test}:abc:key",
			"holdfast_calls:{test}:abc:key", "holdfast_lost:{test}:abc:key", "redisson_countdownlatch__channel__{{test}:abc:key}", false,
		},
	} {
		got := []string{
			SemaphoreChannel(row.name), PermitsKey(row.name), ReservationKey(row.name), CallsKey(row.name), PermitsChannel(row.name),
			LatchChannel(row.name),
		}
		for i, want := range []string{row.channel, row.permits, row.next, row.calls, row.lost, row.latch} {
			if got[i] != want {
				t.Errorf("%q, want %q", got[i], want)
			}
		}
		for _, key := range got[:5] {
			if script.Slot(key) != script.Slot(row.name) {
				t.Errorf("%q is in another slot than %q", key, row.name)
			}
		}
		if LatchFits(row.name) != row.fits {
			t.Errorf("LatchFits(%q) = %v", row.name, !row.fits)
		}
	}
	if Zero != "0" || NewCount != "1" {
		t.Errorf("payloads %q and %q", Zero, NewCount)
	}
}
