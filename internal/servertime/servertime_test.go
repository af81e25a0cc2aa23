package servertime

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func limit(t *testing.T, c *Clock) int64 {
	t.Helper()
	text, _ := c.Limit(time.Now(), 2*time.Second)
	ms, err := strconv.ParseInt(text, 10, 64)
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
		sent = time.Now()
		time.Sleep(100 * time.Millisecond)
		c.Learn(5_000_000, sent, false)
		if got, want := limit(t, &c), int64(1_000_150+2250); got != want {
			t.Errorf("a young guess was replaced: %d, want %d", got, want)
		}
		c.Learn(5_000_000, time.Now(), true)
		time.Sleep(time.Minute)
		if got, want := limit(t, &c), int64(5_060_000+2250); got != want {
			t.Errorf("a wrong guess was kept: %d, want %d", got, want)
		}
	})
}

// A slow answer makes a doubtful guess, and says so until a better one comes.
func TestDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clock
		doubt := func() time.Duration {
			_, doubt := c.Limit(time.Now(), time.Second)
			return doubt
		}
		if got := doubt(); got != 2*slack {
			t.Errorf("without an answer: %v", got)
		}
		sent := time.Now()
		time.Sleep(1900 * time.Millisecond)
		c.Learn(time.Now().UnixMilli(), sent, false)
		if got := doubt(); got != 950*time.Millisecond+2*slack {
			t.Errorf("after a slow answer: %v", got)
		}
		sent = time.Now()
		time.Sleep(10 * time.Millisecond)
		c.Learn(time.Now().UnixMilli(), sent, false)
		if got := doubt(); got != 5*time.Millisecond+2*slack {
			t.Errorf("after a quick answer: %v", got)
		}
		time.Sleep(time.Minute)
		sent = time.Now()
		time.Sleep(4 * time.Second)
		c.Learn(time.Now().UnixMilli(), sent, false)
		if got := doubt(); got != 5*time.Millisecond+2*slack {
			t.Errorf("a slow answer replaced a good guess: %v", got)
		}
	})
}
