package permits

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// expire has a semaphore that is there live for so long.
func expire(t *testing.T, s *holdfast.PermitSemaphore, d time.Duration) {
	t.Helper()
	wantDid(t, true)(s.Expire(background, d))
}

// cleared deletes what a test has left of a semaphore on purpose.
func cleared(t *testing.T, s *holdfast.PermitSemaphore) {
	t.Helper()
	_, err := s.Delete(background)
	kit.OK(t, err)
	time.Sleep(kit.CallsLive)
}

// An answer that was under way while the semaphore got another end says nothing about that: it
// neither lets the holder trust its permit for longer, nor makes it lose one that it has.
func TestLateAnswersDoNotMoveTheEnd(t *testing.T) {
	for _, leased := range []bool{false, true} {
		for _, ends := range []bool{false, true} { // before the late answer is made
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				other, _ := w.Client()
				s, operator := c.NewPermitSemaphore("x", holdfast.Permits(1)), other.NewPermitSemaphore("x", holdfast.Permits(1))
				h := kit.Must(t)(s.Lock(background, fixed(leased, 10*time.Minute)...))
				time.Sleep(1100 * time.Millisecond)
				if ends {
					expire(t, operator, 8*time.Second)
					time.Sleep(200 * time.Millisecond)
				}
				kit.Once(d, "renew", memdriver.Fault{DelayReply: time.Second})
				extended := make(chan error, 1)
				go func() { extended <- h.Extend(background, time.Hour) }()
				time.Sleep(200 * time.Millisecond)
				if ends {
					expire(t, operator, holdfast.NoExpiry)
					<-extended
					time.Sleep(20 * time.Second)
					kit.OK(t, h.Context().Err())
					kit.OK(t, h.Unlock())
				} else {
					start := time.Now()
					expire(t, operator, 4*time.Second)
					<-extended
					lostWithin(t, h, start, 3900*time.Millisecond, 4*time.Second)
					kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				}
				cleared(t, s)
			})
		}
	}
}

// A renewed hold lives on when its semaphore gets a later end, or none: also if that comes when
// the earlier one is near, and if nobody says so.
func TestHoldsOutliveAnEarlierEnd(t *testing.T) {
	for _, later := range []time.Duration{holdfast.NoExpiry, time.Hour} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			other, _ := w.Client()
			s, operator := c.NewPermitSemaphore("x", holdfast.Permits(1)), other.NewPermitSemaphore("x")
			h := kit.Must(t)(s.Lock(background))
			time.Sleep(2 * time.Second)
			expire(t, operator, 25*time.Second)
			time.Sleep(24 * time.Second)
			expire(t, operator, later)
			time.Sleep(2 * time.Minute)
			kit.OK(t, h.Context().Err())
			kit.OK(t, h.Unlock())
			cleared(t, s)
		})
	}
	for _, end := range []string{"5000", "20000"} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			s := c.NewPermitSemaphore("x", holdfast.Permits(1))
			kit.OK(t, kit.Must(t)(s.Lock(background)).Unlock())
			w.Do("PEXPIRE", "x", end)
			h := kit.Must(t)(s.Lock(background))
			for range 120 { // as Redisson's expire does, which tells nobody
				time.Sleep(time.Second)
				w.Do("PEXPIRE", "x", end)
				w.Do("PEXPIRE", "{x}:timeout", end)
			}
			kit.OK(t, h.Context().Err())
			kit.OK(t, h.Unlock())
			cleared(t, s)
		})
	}
}

// What cannot be promised is not: the hold lasts as long as its semaphore.
func TestExtendBeyondTheEnd(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		s := c.NewPermitSemaphore("x", holdfast.Permits(1))
		h := kit.Must(t)(s.Lock(background))
		expire(t, s, time.Minute)
		kit.OK(t, h.Extend(background, 50*time.Second))
		kit.WantError(t, h.Extend(background, time.Hour), holdfast.ErrInvalid)
		if left := time.Until(h.Deadline()); left > time.Minute || left < 59*time.Second {
			t.Errorf("the deadline is in %v", left)
		}
		kit.OK(t, h.Unlock())
		cleared(t, s)
	})
}

// A permit that Redis has not any more is told at the renewal that says so, also if another hold's
// renewal of the same batch is not answered.
func TestLossIsToldBesideAFailure(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		s := c.NewPermitSemaphore("x", holdfast.Permits(5000))
		many := kit.Must(t)(s.Acquire(background, holdfast.MaxPermitsPerHold)) // its renewals go by themselves
		one := kit.Must(t)(s.Lock(background))
		time.Sleep(1100 * time.Millisecond)
		id, err := hex.DecodeString(one.PermitIDs()[0].String())
		kit.OK(t, err)
		w.Do("ZREM", "{x}:timeout", string(id)) // as Redisson's release does, which tells nobody
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseReply: call.Script.Name() == "renew" && len(call.Args) > holdfast.MaxPermitsPerHold}
		})
		lostWithin(t, one, time.Now(), 0, 10*time.Second)
		d.SetFaults(nil)
		kit.WantError(t, one.Unlock(), holdfast.ErrLost)
		kit.OK(t, many.Unlock())
		cleared(t, s)
	})
}

// A permit that is acquired in the last millisecond of its semaphore ends with it.
func TestPermitInTheLastMillisecond(t *testing.T) {
	for _, permits := range []int{1, 2} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			s := c.NewPermitSemaphore("x")
			wantDid(t, true)(s.TrySetPermits(background, 4))
			w.Do("PEXPIRE", "x", "10")
			for w.Do("PTTL", "x") != "0" {
				time.Sleep(100 * time.Microsecond)
			}
			h, err := s.TryAcquire(background, permits)
			time.Sleep(2 * time.Second)
			if err == nil {
				kit.WantLost(t, h)
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
			}
			w.WantReply("0", "EXISTS", "x", "{x}:timeout")
			time.Sleep(kit.CallsLive)
		})
	}
}
