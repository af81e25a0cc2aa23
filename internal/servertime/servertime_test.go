package servertime

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func limit(t *testing.T, c *Clock) int64 {
	t.Helper()
	ms, err := strconv.ParseInt(c.Limit(2*time.Second), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		if got, want := limit(t, &c), time.Now().UnixMilli()+2250; got != want {
			t.Errorf("without an answer: %d, want %d", got, want)
		}
		sent := time.Now()
		time.Sleep(100 * time.Millisecond)
		c.Learn(1_000_000, sent, false) // read 50 ms ago
		if got, want := limit(t, &c), int64(1_000_050+2250); got != want {
			t.Errorf("after an answer: %d, want %d", got, want)
		}
		c.Learn(5_000_000, time.Now(), false)
		if got, want := limit(t, &c), int64(1_000_050+2250); got != want {
			t.Errorf("a young guess was replaced: %d, want %d", got, want)
		}
		c.Learn(5_000_000, time.Now(), true)
		time.Sleep(time.Minute)
		if got, want := limit(t, &c), int64(5_060_000+2250); got != want {
			t.Errorf("a wrong guess was kept: %d, want %d", got, want)
		}
	})
}
