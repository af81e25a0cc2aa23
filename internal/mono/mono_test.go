package mono

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
)

// Moments are as far from each other as the times that they are made of.
func check(t *testing.T) {
	t.Helper()
	before := time.Now()
	now := Now()
	after := time.Now()
	if now < Of(before) || now > Of(after) || now.IsZero() || now < 0 {
		t.Errorf("now is %d, and not between %d and %d", now, Of(before), Of(after))
	}
	later := Of(before.Add(time.Hour))
	if got := later.Sub(Of(before)); got != time.Hour || later != Of(before).Add(time.Hour) {
		t.Errorf("an hour later is %v later", got)
	}
	if left := Until(later); left > time.Hour || left < 59*time.Minute {
		t.Errorf("an hour later is in %v", left)
	}
	if back := later.Time(); !back.Equal(before.Add(time.Hour)) {
		t.Errorf("%v became %v", before.Add(time.Hour), back)
	}
}

func TestTime(t *testing.T)           { check(t) }
func TestTimeThatIsFake(t *testing.T) { faketime.Test(t, check) }

func TestNone(t *testing.T) {
	var none Time
	if !none.IsZero() || !none.Time().IsZero() || none >= Now() {
		t.Error("the zero Time is a moment")
	}
}
