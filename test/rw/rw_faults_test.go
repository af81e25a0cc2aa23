package rw

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// crashed is an owner of ours that is not there any more.
const crashed = "7b0f2b1e-93a5-8f0e-8a43-5b8d7c9e1f00:1"

// S9, A12: neither a nested hold nor its end changes how long a writer has the lock. S4, S5: the writer is renewed
// thereafter, and after a forced unlock of readers, of whom there are none.
func TestS4_S5_S9_A12_NestedHoldsLeaveTheWriterAlone(t *testing.T) {
	fake(t, func(s *stage) {
		write, second := s.lock(s.m), holdfast.FixedLease(time.Second)
		inner, one, two := s.Must(s.m.Lock(write.Context(), second)), s.nested(write, second), s.nested(write, second)
		for _, h := range []*holdfast.Hold{two, one, inner} {
			s.Unlock(h)
			s.wantTTL(29*time.Second, 30*time.Second)
		}
		if did, err := s.m.RLocker().ForceUnlock(background); did || err != nil {
			s.Errorf("ForceUnlock of readers: %v, %v", did, err)
		}
		time.Sleep(10 * time.Minute)
		kit.OK(s.T, context.Cause(write.Context()))
		s.Unlock(write)
	})
}

// S10: whichever of an owner's reads ends first, the others live as long as the
// longest was promised.
func TestS10_PartialReadUnlockKeepsTheLongest(t *testing.T) {
	fake(t, func(s *stage) {
		short := s.read(s.m, holdfast.FixedLease(time.Second))
		long := s.Must(s.m.RLock(short.Context(), holdfast.FixedLease(100*time.Second)))
		time.Sleep(2 * time.Second)
		s.Unlock(long)
		kit.OK(s.T, context.Cause(short.Context()))
		if ttl := s.PTTL(kit.ReadHold("x", short.Owner().String(), 1)); ttl < 97*time.Second {
			s.Errorf("the remaining hold lives for %v", ttl)
		}
		s.Unlock(short)
	})
}

// L11: when the lock is going to end earlier than a writer was told, it hears of it.
func TestL11_WritersHearThatTheirWaitIsShorter(t *testing.T) {
	fake(t, func(s *stage) {
		dead := s.read(s.m, holdfast.FixedLease(5*time.Second))
		long := s.read(s.other, holdfast.FixedLease(10*time.Minute))
		kit.Away(s.d)
		start := time.Now()
		time.AfterFunc(time.Second, func() { s.Unlock(long) })
		h := s.lock(s.other)
		kit.Took(s.T, time.Since(start), 5*time.Second, 5100*time.Millisecond, "the writer got in after %v")
		s.Unlock(h)
		s.d.SetFaults(nil)
		kit.WantError(s.T, dead.Unlock(), holdfast.ErrLost)
	})
}

// P6: a reader who leaves looks at few others if one of them keeps the lock, and
// crashed ones keep nobody out when the last one who lives has left.
func TestP6_CrashedReadersAreDropped(t *testing.T) {
	fake(t, func(s *stage) {
		var dead []*holdfast.Hold
		for range 10 {
			dead = append(dead, s.read(s.m, holdfast.FixedLease(time.Second)))
		}
		kit.Away(s.d)
		stays := s.read(s.other)
		time.Sleep(2 * time.Second)
		s.Unlock(s.read(s.other))
		s.WantReply("1", "EXISTS", "x")
		s.Unlock(stays)
		s.WantReply("0", "EXISTS", "x")
		s.d.SetFaults(nil)
		for _, h := range dead {
			kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
		}
	})
}

// A writer who has given up is not waited for, whatever happened to what it
// asked: whether it asked before it stood in line, or its request was delayed.
func TestWritersFirst_WhoseMessagesAreLateGivesUp(t *testing.T) {
	for name, f := range map[string]memdriver.Fault{
		"no answer":        {LoseReply: true},
		"held up":          {DelayRequest: 500 * time.Millisecond},
		"comes twice":      {LoseReply: true, Repeat: true, RepeatAfter: 500 * time.Millisecond},
		"comes back later": {DelayReply: 500 * time.Millisecond},
	} {
		for _, byHand := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/by hand %v", name, byHand), func(t *testing.T) {
				fake(t, func(s *stage) {
					r := s.read(s.other)
					kit.Next(s.d, "acquire", f)
					ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
					defer cancel()
					if byHand {
						ctx = holdfast.WithOwner(ctx, s.c.NewOwner())
					}
					kit.Fails(s.T, context.DeadlineExceeded)(s.c.NewRWMutex("x", holdfast.WritersFirst()).Lock(ctx))
					time.Sleep(4 * time.Second) // its sends' limits
					s.WantReply("0", "EXISTS", kit.WaitlistKey("x"), kit.RequestsKey("x"))
					s.Unlock(r)
				})
			})
		}
	}
}

// Readers of one process who follow each other without a gap do not keep a writer out for whom others make way,
// though they share what the first of them was granted.
func TestWritersFirst_ReadersWhoShare(t *testing.T) {
	fake(t, func(s *stage) {
		var readers sync.WaitGroup
		for i := range 400 {
			readers.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				kit.Turn(s.T, func() { time.Sleep(8 * time.Millisecond) })(s.m.RLock(background))
			})
		}
		other, _ := s.Client()
		writer := other.NewRWMutex("x", holdfast.WritersFirst())
		for range 12 { // after some of which readers join others, by chance
			time.Sleep(101 * time.Millisecond)
			start := time.Now()
			s.Unlock(s.lock(writer))
			kit.Took(s.T, time.Since(start), 0, 200*time.Millisecond, "the writer waited for %v")
		}
		readers.Wait()
	})
}

// The last reader ends the lock, whatever time it had left: a writer of Redisson's that goes on reading leaves its own
// time on the lock, and would keep Redisson's other writers out. Nor do the dead keep it.
func TestLastReaderEndsTheLock(t *testing.T) {
	fake(t, func(s *stage) {
		for _, dead := range [][]string{{"PING"}, {"HSET", "x", crashed, "1"}} {
			h := s.read(s.m)
			s.Do(dead...)
			s.Do("PEXPIRE", "x", "600000")
			s.Unlock(h)
			s.WantReply("0", "EXISTS", "x")
		}
		h := s.read(s.m)
		s.Do("PEXPIRE", "x", "600000")
		waiting := kit.Waiting(s.T, s.m, background)
		time.Sleep(4 * time.Second)
		start := time.Now()
		s.Unlock(h)
		s.Unlock(<-waiting)
		kit.Took(s.T, time.Since(start), 0, 100*time.Millisecond, "the writer got in after %v")
	})
}

// A forced unlock that leaves readers, who came after it had looked, leaves their
// time too.
func TestForcedReadersTakeTheirTimeWithThem(t *testing.T) {
	fake(t, func(s *stage) {
		long := s.read(s.other, holdfast.FixedLease(10*time.Minute))
		s.Do("HSET", "x", crashed, "1")
		kit.Next(s.d, "force", memdriver.Fault{DelayRequest: 100 * time.Millisecond})
		forced := make(chan error)
		go func() {
			did, err := s.m.RLocker().ForceUnlock(background)
			if !did {
				err = errors.Join(err, errors.New("nothing was forced"))
			}
			forced <- err
		}()
		time.Sleep(50 * time.Millisecond)
		h := s.read(s.other, holdfast.FixedLease(5*time.Second))
		kit.OK(s.T, <-forced)
		s.wantTTL(4*time.Second, 5*time.Second)
		s.WantReply("0", "HEXISTS", "x", crashed)
		kit.WantError(s.T, long.Unlock(), holdfast.ErrLost)
		s.Unlock(h)
	})
}

// What a reader has left in Redis, and what is being given back there, does not
// make its owner a reader who wants to write.
func TestNoUpgrade_WhatIsGivenBackDoesNotCount(t *testing.T) {
	givesUp := func(s *stage, ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		kit.Fails(s.T, context.DeadlineExceeded)(s.m.RLock(ctx))
	}
	for name, read := range map[string]func(s *stage, ctx context.Context){
		"no answer": func(s *stage, ctx context.Context) {
			kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true})
			givesUp(s, ctx)
			time.Sleep(100 * time.Millisecond)
		},
		"held up": func(s *stage, ctx context.Context) {
			kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 150 * time.Millisecond})
			givesUp(s, ctx)
			time.Sleep(100 * time.Millisecond)
		},
		"not given back yet": func(s *stage, ctx context.Context) {
			var lost atomic.Bool
			s.d.SetFaults(func(c driver.Call) memdriver.Fault {
				return memdriver.Fault{
					LoseReply:    c.Script.Name() == "acquire" && !lost.Swap(true),
					DelayRequest: map[string]time.Duration{"release": 500 * time.Millisecond}[c.Script.Name()],
				}
			})
			givesUp(s, ctx)
			var failed *holdfast.BackendError
			if _, err := s.m.Lock(ctx, holdfast.Wait(20*time.Millisecond)); !errors.As(err, &failed) {
				s.Errorf("Lock: %v", err)
			}
			giveUp, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			kit.Fails(s.T, context.DeadlineExceeded)(s.m.Lock(giveUp))
		},
		"lost": func(s *stage, ctx context.Context) {
			h := s.Must(s.m.RLock(ctx))
			kit.Away(s.d)
			<-h.Context().Done()
			kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
			s.d.SetFaults(nil)
		},
		"unlocked without an answer": func(s *stage, ctx context.Context) {
			h := s.Must(s.m.RLock(ctx))
			kit.Away(s.d)
			s.refused(h)
			s.d.SetFaults(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				ctx := holdfast.WithOwner(background, s.c.NewOwner())
				read(s, ctx)
				s.Unlock(s.Must(s.m.TryLock(ctx)))
				time.Sleep(4 * time.Second)
			})
		})
	}
}

// A lock that somebody has made live for ever lives as long as the last of its holds
// once another reader comes, not as long as that one's.
func TestReaderOfALockWithoutExpiry(t *testing.T) {
	fake(t, func(s *stage) {
		long := s.read(s.m, holdfast.FixedLease(10*time.Minute))
		s.Do("PERSIST", "x")
		short := s.read(s.m, holdfast.FixedLease(time.Second))
		time.Sleep(2 * time.Second)
		kit.Fails(s.T, holdfast.ErrLocked)(s.m.TryLock(background))
		kit.WantError(s.T, short.Unlock(), holdfast.ErrLost)
		s.Unlock(long)
	})
}

// Keys that are left of holds whose lock has gone, as after Redisson's forced
// unlock, do not make the owner's next hold longer.
func TestKeysOfALockThatIsGone(t *testing.T) {
	fake(t, func(s *stage) {
		ctx := holdfast.WithOwner(background, s.c.NewOwner())
		long := s.Must(s.m.RLock(ctx, holdfast.FixedLease(10*time.Minute)))
		s.Do("DEL", "x")
		kit.WantError(s.T, long.Unlock(), holdfast.ErrLost)
		stays := s.read(s.m)
		short := s.Must(s.m.RLock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		s.Unlock(stays)
		s.Unlock(s.Must(s.m.TryLock(background)))
		kit.WantError(s.T, short.Unlock(), holdfast.ErrLost)
	})
}

// A reader that makes way for a writer does not ask without a pause. A writer in front that is not subscribed keeps no reader out, however
// long its entry says that it lives.
func TestWritersFirst_NobodyInFront(t *testing.T) {
	fake(t, func(s *stage) {
		sent := kit.Count(s.d)
		r := s.read(s.other)
		other, _ := s.Client()
		waits := kit.Waiting(s.T, other.NewRWMutex("x", holdfast.WritersFirst()), background)
		s.Unlock(s.Must(s.other.RLocker().TryLock(r.Context()))) // a reader that nests makes way for nobody
		kit.Fails(s.T, holdfast.ErrLocked)(s.m.RLock(background, holdfast.Wait(10*time.Second)))
		if n := sent.Of("acquire"); n > 3+10 { // who stands in line asks every second
			s.Errorf("asked %d times in 10 s", n)
		}
		s.Unlock(r)
		s.Unlock(<-waits)
		r = s.read(s.other)
		for _, lives := range []string{"9999999999999 0", "1 1", "else"} {
			s.Do("ZADD", kit.WaitlistKey("x"), "-1", "nobody:1:write")
			s.Do("HSET", kit.RequestsKey("x"), "nobody:1:write", "n 3000 "+lives)
			s.Unlock(s.Must(s.m.RLocker().TryLock(background)))
			s.WantReply("0", "EXISTS", kit.WaitlistKey("x"))
		}
		s.Unlock(r)
	})
}
