package servertime

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// send is a call that takes effect for two seconds.
type send struct {
	clock Clock
	at    mono.Time
	limit int64
}

func (c *Clocks) send(slot int) send {
	now, clock := mono.Now(), c.Of(slot)
	return send{clock: clock, at: now, limit: clock.Limit(now, 2*time.Second)}
}

// expiry is for how long after it was sent it may take effect.
func (s send) expiry() time.Duration { return s.clock.Expiry(s.at, 2*time.Second, s.limit).Sub(s.at) }

func (s send) want(t *testing.T, limit int64, over time.Duration) {
	t.Helper()
	if s.limit != limit {
		t.Errorf("limit %d, want %d", s.limit, limit)
	}
	if got := s.expiry(); got != over {
		t.Errorf("over after %v, want %v", got, over)
	}
}

// answer has a node answer after a while, with the time half-way by its clock.
func (c *Clocks) answer(slot int, ahead, after time.Duration) {
	sent, at := mono.Now(), time.Now()
	time.Sleep(after)
	c.Of(slot).Learn(at.Add(after/2+ahead).UnixMilli(), sent)
}

func TestClock(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var c Clocks
		c.send(0).want(t, time.Now().UnixMilli()+2250, 2500*time.Millisecond)
		c.answer(0, time.Hour, 100*time.Millisecond)
		ahead := time.Hour.Milliseconds()
		c.send(0).want(t, time.Now().UnixMilli()+ahead+2250, 2550*time.Millisecond)
		c.answer(0, time.Hour+20*time.Millisecond, 100*time.Millisecond)
		c.send(0).want(t, time.Now().UnixMilli()+ahead+2250, 2550*time.Millisecond)
		time.Sleep(young)
		c.answer(0, time.Hour+20*time.Millisecond, 100*time.Millisecond)
		c.send(0).want(t, time.Now().UnixMilli()+ahead+20+2250, 2550*time.Millisecond)
	})
}

// An answer that cannot be of the same clock replaces a guess at once, however
// young and good that is.
func TestAnotherClock(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Second, 3 * time.Second} {
		faketime.Test(t, func(t *testing.T) {
			var c Clocks
			c.answer(0, 0, 2*time.Millisecond)
			c.answer(0, ahead, 100*time.Millisecond)
			c.send(0).want(t, time.Now().Add(ahead).UnixMilli()+2250, 2550*time.Millisecond)
		})
	}
}

// A slow answer makes a doubtful guess, and says so until a better one comes.
func TestDoubt(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var c Clocks
		doubt := func(want time.Duration) {
			t.Helper()
			if got := c.send(0).expiry() - 2*time.Second - 2*Slack; got != want {
				t.Errorf("doubt %v, want %v", got, want)
			}
		}
		doubt(0)
		c.answer(0, 0, 1900*time.Millisecond)
		doubt(950 * time.Millisecond)
		c.answer(0, 0, 10*time.Millisecond)
		doubt(5 * time.Millisecond)
		time.Sleep(time.Minute)
		c.answer(0, 0, 4*time.Second)
		doubt(5 * time.Millisecond)
	})
}

// By how much longer a send may have an effect is unknown until the node that has the slot has
// told its time, whatever others have told.
func TestDoubtOfASend(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c := New(2)
		want := func(slot int, want time.Duration) {
			t.Helper()
			if got := c.Of(slot).Doubt(); got != want {
				t.Errorf("slot %d: doubt %v, want %v", slot, got, want)
			}
		}
		want(0, maxDoubt)
		c.answer(1, time.Hour, time.Second)
		want(0, maxDoubt)
		want(1, 0)
		c.answer(0, 0, time.Second)
		want(0, 0)
	})
}

// When a send is over that was made before the first answer is known after it:
// the server's clock has to pass the limit that was guessed.
func TestFirstAnswerTellsWhenASendExpires(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Duration{
		-time.Minute:      time.Minute + 2550*time.Millisecond,
		-3 * time.Second:  5550 * time.Millisecond,
		0:                 2550 * time.Millisecond,
		1 * time.Second:   1550 * time.Millisecond,
		3 * time.Second:   -450 * time.Millisecond, // it was late when it was sent
		-10 * time.Minute: maxDoubt + 2*time.Second,
	} {
		faketime.Test(t, func(t *testing.T) {
			var c Clocks
			first := c.send(0)
			first.want(t, time.Now().UnixMilli()+2250, 2500*time.Millisecond)
			c.answer(0, ahead, 100*time.Millisecond)
			if got := first.expiry(); got != want {
				t.Errorf("the server is ahead by %v: over after %v, want %v", ahead, got, want)
			}
		})
	}
}

// Each slot has a guess of its own; one about which nothing was answered follows
// the last answer, and does not rely on it.
func TestSlots(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c := New(3)
		c.answer(0, time.Minute, 100*time.Millisecond)
		minute := time.Minute.Milliseconds()
		other := c.send(1)
		other.want(t, time.Now().UnixMilli()+minute+2250, 2500*time.Millisecond)
		c.answer(1, time.Minute-3*time.Second, 100*time.Millisecond)
		other.want(t, other.limit, 5550*time.Millisecond)
		c.send(0).want(t, time.Now().UnixMilli()+minute+2250, 2550*time.Millisecond)
		c.send(1).want(t, time.Now().UnixMilli()+minute-3000+2250, 2550*time.Millisecond)
		c.send(2).want(t, time.Now().UnixMilli()+minute-3000+2250, 2500*time.Millisecond)
	})
}
