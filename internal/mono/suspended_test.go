package mono

import (
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

// host is a computer whose clocks can be set, and that can be suspended.
type host struct {
	sleeper

	ran, lead, slept time.Duration
}

// newHost returns one that measures suspensions, or has to guess.
func newHost(measures bool) *host {
	h := &host{}
	h.measure = func() (time.Duration, bool) {
		if measures {
			return h.slept, true
		}
		return 0, false
	}
	return h
}

func (h *host) suspend(d time.Duration) { h.slept, h.lead = h.slept+d, h.lead+d }

// want checks what is seen at once, and what is after a while.
func (h *host) want(t *testing.T, name string, want time.Duration) {
	t.Helper()
	for range 2 {
		if got := h.until(h.ran, h.lead); got != want {
			t.Errorf("%s: suspended for %v after %v, want %v", name, got, h.ran, want)
		}
		h.ran += time.Second
	}
}

func TestSuspensionIsMeasured(t *testing.T) {
	h := newHost(true)
	h.want(t, "running", 0)
	h.lead += 24 * time.Hour
	h.want(t, "set forward by a day", 0)
	h.suspend(time.Minute)
	h.want(t, "suspended", time.Minute)
	h.lead -= time.Hour
	h.want(t, "set back", time.Minute)
	h.suspend(20 * time.Second)
	h.lead += 40 * 365 * 24 * time.Hour
	h.want(t, "suspended, and set by forty years", 80*time.Second)
	h.slept += time.Hour // the wall clock is set back by as much
	h.ran += remeasure
	h.want(t, "suspended, and set back by as much", time.Hour+80*time.Second)
	h.slept += jitter / 2
	h.want(t, "read a little later", time.Hour+80*time.Second)
}

func TestSuspensionIsGuessed(t *testing.T) {
	h := newHost(false)
	h.want(t, "running", 0)
	h.suspend(time.Minute)
	h.want(t, "suspended", time.Minute)
	h.lead -= time.Hour
	h.want(t, "set back", time.Minute)
	h.suspend(time.Minute)
	h.want(t, "suspended after that", 2*time.Minute)
	for range 100 {
		h.lead += 2 * time.Millisecond
		h.want(t, "slewed", 2*time.Minute)
	}
	h.lead += 40 * 365 * 24 * time.Hour
	h.want(t, "set by forty years", 2*time.Minute)
	h.lead += time.Hour
	h.want(t, "set by an hour, which looks like a suspension", time.Hour+2*time.Minute)
}

// A moment that was read before a suspension does not make the next look count that suspension twice.
func TestAMomentOfBeforeIsNoMeasurement(t *testing.T) {
	h := newHost(false)
	h.want(t, "running", 0)
	ran, lead := h.ran, h.lead
	h.ran += time.Second
	h.suspend(time.Hour)
	h.want(t, "suspended", time.Hour)
	h.until(ran, lead)
	h.want(t, "after a look at an earlier moment", time.Hour)
}

// A host that runs this test is not suspended during it, under real and fake time.
func TestNotSuspended(t *testing.T) {
	check := func(t *testing.T) {
		t.Helper()
		_, before := Read(time.Now())
		for range 100 {
			if asleep, ok := measure(); runtime.GOOS == "linux" && (!ok || (asleep-before).Abs() > jitter) {
				t.Errorf("suspended for %v since the start, measured: %t", asleep, ok)
			}
		}
		if _, asleep := Read(time.Now().Add(time.Hour)); asleep != before {
			t.Errorf("suspended for %v within an hour", asleep-before)
		}
	}
	check(t)
	faketime.Test(t, check)
	check(t)
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
