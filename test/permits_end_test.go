package test

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// expire has a semaphore that is there live for so long.
func expire(t *testing.T, s *holdfast.PermitSemaphore, d time.Duration) {
	t.Helper()
	if there, err := s.Expire(background, d); !there || err != nil {
		t.Fatal(there, err)
	}
}

// cleared deletes what a test has left of a semaphore on purpose.
func cleared(t *testing.T, s *holdfast.PermitSemaphore) {
	t.Helper()
	_, err := s.Delete(background)
	ok(t, err)
	time.Sleep(callsLive)
}

// An answer that was under way while the semaphore got another end says nothing about that: it
// neither lets the holder trust its permit for longer, nor makes it lose one that it has.
func TestLateAnswersDoNotMoveTheEnd(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		for _, ends := range []bool{false, true} { // before the late answer is made
			fake(t, func(t *testing.T, w *world) {
				c, d := w.client()
				other, _ := w.client()
				s, operator := c.NewPermitSemaphore("x", holdfast.Permits(1)), other.NewPermitSemaphore("x", holdfast.Permits(1))
				var options []holdfast.LockOption
				if fixed {
					options = append(options, holdfast.FixedLease(10*time.Minute))
				}
				h := must(t)(s.Lock(background, options...))
				time.Sleep(1100 * time.Millisecond)
				if ends {
					expire(t, operator, 8*time.Second)
					time.Sleep(200 * time.Millisecond)
				}
				once(d, "renew", memdriver.Fault{DelayReply: time.Second})
				extended := make(chan error, 1)
				go func() { extended <- h.Extend(background, time.Hour) }()
				time.Sleep(200 * time.Millisecond)
				if ends {
					expire(t, operator, holdfast.NoExpiry)
					<-extended
					time.Sleep(20 * time.Second)
					ok(t, h.Context().Err())
					ok(t, h.Unlock())
				} else {
					start := time.Now()
					expire(t, operator, 4*time.Second)
					<-extended
					if took := lostAt(t, h, start); took > 4*time.Second || took < 3900*time.Millisecond {
						t.Errorf("fixed %v: lost after %v", fixed, took)
					}
					wantError(t, h.Unlock(), holdfast.ErrLost)
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
		fake(t, func(t *testing.T, w *world) {
			c, _ := w.client()
			other, _ := w.client()
			s, operator := c.NewPermitSemaphore("x", holdfast.Permits(1)), other.NewPermitSemaphore("x")
			h := must(t)(s.Lock(background))
			time.Sleep(2 * time.Second)
			expire(t, operator, 25*time.Second)
			time.Sleep(24 * time.Second)
			expire(t, operator, later)
			time.Sleep(2 * time.Minute)
			ok(t, h.Context().Err())
			ok(t, h.Unlock())
			cleared(t, s)
		})
	}
	for _, end := range []string{"5000", "20000"} {
		fake(t, func(t *testing.T, w *world) {
			c, _ := w.client()
			s := c.NewPermitSemaphore("x", holdfast.Permits(1))
			ok(t, must(t)(s.Lock(background)).Unlock())
			w.do("PEXPIRE", "x", end)
			h := must(t)(s.Lock(background))
			for range 120 { // as Redisson's expire does, which tells nobody
				time.Sleep(time.Second)
				w.do("PEXPIRE", "x", end)
				w.do("PEXPIRE", "{x}:timeout", end)
			}
			ok(t, h.Context().Err())
			ok(t, h.Unlock())
			cleared(t, s)
		})
	}
}

// What cannot be promised is not: the hold lasts as long as its semaphore.
func TestExtendBeyondTheEnd(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		s := c.NewPermitSemaphore("x", holdfast.Permits(1))
		h := must(t)(s.Lock(background))
		expire(t, s, time.Minute)
		ok(t, h.Extend(background, 50*time.Second))
		wantError(t, h.Extend(background, time.Hour), holdfast.ErrInvalid)
		if left := time.Until(h.Deadline()); left > time.Minute || left < 59*time.Second {
			t.Errorf("the deadline is in %v", left)
		}
		ok(t, h.Unlock())
		cleared(t, s)
	})
}

// A permit that Redis has not any more is told at the renewal that says so, also if another hold's
// renewal of the same batch is not answered.
func TestLossIsToldBesideAFailure(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		s := c.NewPermitSemaphore("x", holdfast.Permits(5000))
		many := must(t)(s.Acquire(background, holdfast.MaxPermitsPerHold)) // its renewals go by themselves
		one := must(t)(s.Lock(background))
		time.Sleep(1100 * time.Millisecond)
		id, err := hex.DecodeString(one.PermitIDs()[0].String())
		ok(t, err)
		w.do("ZREM", "{x}:timeout", string(id)) // as Redisson's release does, which tells nobody
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseReply: call.Script.Name() == "renew" && len(call.Args) > holdfast.MaxPermitsPerHold}
		})
		if took := lostAt(t, one, time.Now()); took > 10*time.Second {
			t.Errorf("told after %v", took)
		}
		d.SetFaults(nil)
		wantError(t, one.Unlock(), holdfast.ErrLost)
		ok(t, many.Unlock())
		cleared(t, s)
	})
}

// A permit that is acquired in the last millisecond of its semaphore ends with it.
func TestPermitInTheLastMillisecond(t *testing.T) {
	for _, permits := range []int{1, 2} {
		fake(t, func(t *testing.T, w *world) {
			c, _ := w.client()
			s := c.NewPermitSemaphore("x")
			_, err := s.TrySetPermits(background, 4)
			ok(t, err)
			w.do("PEXPIRE", "x", "10")
			for w.do("PTTL", "x") != "0" {
				time.Sleep(100 * time.Microsecond)
			}
			h, err := s.TryAcquire(background, permits)
			time.Sleep(2 * time.Second)
			if err == nil {
				wantLost(t, h)
				wantError(t, h.Unlock(), holdfast.ErrLost)
			}
			w.wantReply("0", "EXISTS", "x", "{x}:timeout")
			time.Sleep(callsLive)
		})
	}
}
