package permits

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// This file is about semaphores that end, and take their permits with them.

// made makes the semaphore, which has n permits, when it is acquired by c first.
func (s *stage) made(n int) {
	s.permits = s.c.NewPermitSemaphore("x", holdfast.Permits(n))
}

// expire has the other client let the semaphore live for so long.
func (s *stage) expire(d time.Duration) {
	s.T.Helper()
	kit.WantDid(s.T, true)(s.theirs.Expire(background, d))
}

// An answer that was under way while the semaphore got another end says nothing about that: it
// neither lets the holder trust its permit for longer, nor makes it lose one that it has.
func TestLateAnswersDoNotMoveTheEnd(t *testing.T) {
	for _, leased := range []bool{false, true} {
		for _, ends := range []bool{false, true} { // before the late answer is made
			on(t, "", 0, func(s *stage) {
				s.made(1)
				h := s.acquire(1, fixed(leased, 10*time.Minute)...)
				time.Sleep(1100 * time.Millisecond)
				if ends {
					s.expire(8 * time.Second)
					time.Sleep(200 * time.Millisecond)
				}
				kit.Next(s.d, "renew", memdriver.Fault{DelayReply: time.Second})
				extended := kit.Aside(func() error { return h.Extend(background, time.Hour) })
				time.Sleep(200 * time.Millisecond)
				start := time.Now()
				if ends {
					s.expire(holdfast.NoExpiry)
					<-extended
					time.Sleep(20 * time.Second)
					kit.OK(s.T, h.Context().Err(), h.Unlock())
				} else {
					s.expire(4 * time.Second)
					<-extended
					lostWithin(s.T, h, start, 3900*time.Millisecond, 4*time.Second)
				}
			})
		}
	}
}

// A renewed hold lives on when its semaphore gets a later end, or none: also if that comes when
// the earlier one is near, and if nobody says so.
func TestHoldsOutliveAnEarlierEnd(t *testing.T) {
	for _, later := range []time.Duration{holdfast.NoExpiry, time.Hour} {
		on(t, "", 0, func(s *stage) {
			s.made(1)
			h := s.acquire(1)
			time.Sleep(2 * time.Second)
			s.expire(25 * time.Second)
			time.Sleep(24 * time.Second)
			s.expire(later)
			time.Sleep(2 * time.Minute)
			kit.OK(s.T, h.Context().Err(), h.Unlock())
		})
	}
	for _, end := range []string{"5000", "20000"} {
		on(t, "", 0, func(s *stage) {
			s.made(1)
			kit.Unlock(s.T, s.acquire(1))
			s.Do("PEXPIRE", "x", end)
			h := s.acquire(1)
			for range 120 { // as Redisson's expire does, which tells nobody
				time.Sleep(time.Second)
				s.Do("PEXPIRE", "x", end)
				s.Do("PEXPIRE", "{x}:timeout", end)
			}
			kit.OK(s.T, h.Context().Err(), h.Unlock())
		})
	}
}

// What cannot be promised is not: the hold lasts as long as its semaphore.
func TestExtendBeyondTheEnd(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		s.made(1)
		h := s.acquire(1)
		s.expire(time.Minute)
		kit.OK(s.T, h.Extend(background, 50*time.Second))
		kit.WantError(s.T, h.Extend(background, time.Hour), holdfast.ErrInvalid)
		if left := time.Until(h.Deadline()); left > time.Minute || left < 59*time.Second {
			s.T.Errorf("the deadline is in %v", left)
		}
		kit.OK(s.T, h.Unlock())
	})
}

// A semaphore that ends takes the permits with it, so no hold is trusted beyond that:
// whether its holder has acquired it before, or after the end was set.
func TestHoldsEndWithTheirSemaphore(t *testing.T) {
	for _, leased := range []bool{false, true} {
		for _, permits := range []int{1, 2} {
			on(t, "", 0, func(s *stage) {
				s.made(4)
				options := fixed(leased, time.Hour)
				before := s.acquire(permits, options...)
				time.Sleep(1100 * time.Millisecond)
				for _, d := range []time.Duration{3 * time.Second, holdfast.NoExpiry} {
					s.expire(d)
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				kit.OK(s.T, before.Context().Err()) // it does not end any more
				start := time.Now()
				s.expire(5 * time.Second)
				after := s.acquire(permits, options...)
				if left := time.Until(after.Deadline()); left > 5*time.Second || left < 4*time.Second {
					s.T.Errorf("acquired for %v", left)
				}
				var lost *holdfast.LostError
				for _, h := range []*holdfast.Hold{before, after} {
					lostWithin(s.T, h, start, 4*time.Second, 5*time.Second)
					if cause := context.Cause(h.Context()); !errors.As(cause, &lost) || lost.Reason != holdfast.LostLeaseOver {
						s.T.Errorf("fixed %v: %v", leased, cause)
					}
				}
				time.Sleep(kit.CallsLive)
				s.WantReply("", "KEYS", "*")
			})
		}
	}
}

// A permit that is acquired in the last millisecond of its semaphore ends with it.
func TestPermitInTheLastMillisecond(t *testing.T) {
	for _, permits := range []int{1, 2} {
		on(t, "", 0, func(s *stage) {
			kit.WantDid(s.T, true)(s.permits.TrySetPermits(background, 4))
			s.Do("PEXPIRE", "x", "10")
			for s.Do("PTTL", "x") != "0" {
				time.Sleep(100 * time.Microsecond)
			}
			h, err := s.permits.TryAcquire(background, permits)
			time.Sleep(2 * time.Second)
			if err == nil {
				kit.WantLost(s.T, h)
				kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
			}
			s.WantReply("0", "EXISTS", "x", "{x}:timeout")
		})
	}
}

// A permit that Redis has not any more is told at the renewal that says so, also if another hold's
// renewal of the same batch is not answered.
func TestLossIsToldBesideAFailure(t *testing.T) {
	on(t, "permits", 5000, func(s *stage) {
		many := s.acquire(holdfast.MaxPermitsPerHold) // its renewals go by themselves
		one := s.acquire(1)
		time.Sleep(1100 * time.Millisecond)
		id, err := hex.DecodeString(one.PermitIDs()[0].String())
		kit.OK(s.T, err)
		s.Do("ZREM", "{x}:timeout", string(id)) // as Redisson's release does, which tells nobody
		s.Do("INCR", "x")
		s.d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseReply: call.Script.Name() == "renew" && len(call.Args) > holdfast.MaxPermitsPerHold}
		})
		lostWithin(s.T, one, time.Now(), 0, 10*time.Second)
		s.d.SetFaults(nil)
		kit.Unlock(s.T, many)
	})
}
