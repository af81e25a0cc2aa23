package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Each fault at each script of two waiters: both get the lock, in order, one hold
// each, and nothing is left.
func TestS13_FairFaultsHaveNoSecondEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		for script, times := range map[string]int{"acquire": 3, "release": 1, "leave": 1, "renew": 1} {
			for n := range times {
				t.Run(fmt.Sprint(name, "/", script, n), func(t *testing.T) {
					fake(t, func(s *stage) { s.suffers(script, append(make([]memdriver.Fault, n), fault)...) })
				})
			}
		}
	}
}

// suffers has three stand in line: the first suffers the faults at its calls of a
// script, the second leaves with them, the third just waits.
func (s *stage) suffers(script string, faults ...memdriver.Fault) {
	var line []*kit.Standing
	for range 2 {
		c, d := s.Client()
		kit.Next(d, script, faults...)
		line = append(line, s.standAs(c, d))
		time.Sleep(4 * time.Second)
	}
	first, third := line[0], s.stand()
	time.Sleep(100 * time.Millisecond)
	line[1].Cancel(nil)
	s.release()
	s.h = first.Hold(s.T)
	if !third.Waits() {
		s.Error("the third came first")
	}
	time.Sleep(15 * time.Second) // renewals
	s.WantCount("x", first.Owner, 1)
	s.h = third.Within(s.T, s.release(), 6*time.Second)
	for range 2 {
		s.WantCount("x", third.Owner, 1)
		time.Sleep(time.Minute)
	}
	s.release()
	time.Sleep(time.Minute)
}

// An acquire that was not answered, and comes after its hold was given back, keeps no place in line, also if a later
// acquire of the same owner was not answered at once either.
func TestLateAcquireKeepsNoPlaceAfterTheHold(t *testing.T) {
	reset := memdriver.Fault{Refuse: &driver.Error{MayHaveRun: true, Transient: true, Err: errors.New("connection reset")}}
	for name, nests := range map[string]bool{"one hold": false, "nested holds": true} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				c, d := s.Client()
				mu, ctx := c.NewFairMutex("x"), holdfast.WithOwner(background, c.NewOwner())
				kit.Next(d, "acquire", memdriver.Fault{DelayRequest: 1900 * time.Millisecond})
				_, err := mu.TryLock(ctx)
				kit.WantError(s.T, err, holdfast.ErrLocked) // the guess of the server's clock is now 950 ms ahead
				s.release()
				kit.Next(d, "acquire", memdriver.Fault{DelayRequest: 2500 * time.Millisecond, LoseReply: true})
				h := kit.Must(s.T)(mu.Lock(ctx))
				if nests {
					kit.Next(d, "acquire", reset)
					kit.Unlock(s.T, kit.Must(s.T)(mu.Lock(ctx)))
				}
				kit.Unlock(s.T, h)
				s.h = kit.Must(s.T)(s.newLock().Lock(background))
				if !nests {
					time.Sleep(600 * time.Millisecond)
					s.WantReply("1", "LLEN", kit.QueueKey) // here it comes
				}
				time.Sleep(10 * time.Second)
				s.wantNoLine()
				s.WantCount("x", s.h.Owner(), 1)
				s.release()
			})
		})
	}
}

// Redis answers nobody for a while, and then everybody, in whichever order: the
// line stands as it did. Others who are not in line do not get past it either. So it is if the lock is given back as
// soon as Redis answers again, before any of the waiters is heard.
func TestL8_SilenceOfTheServerCostsNobodyHisPlace(t *testing.T) {
	for _, seconds := range []int{2, 3, 5, 15, 50} {
		for _, reversed := range []bool{false, true} {
			for _, prompt := range []bool{false, true} {
				fake(t, func(s *stage) {
					line := s.line(4)
					time.Sleep(2 * time.Second)
					for _, waiter := range line {
						kit.Away(waiter.D)
					}
					time.Sleep(time.Duration(seconds) * time.Second)
					if prompt {
						s.release()
					} else {
						kit.Fails(s.T, holdfast.ErrLocked)(s.newLock().TryLock(background))
					}
					answered := slices.Clone(line)
					if reversed {
						slices.Reverse(answered)
					}
					for _, waiter := range answered {
						waiter.D.SetFaults(nil)
						time.Sleep(300 * time.Millisecond)
					}
					if !prompt {
						time.Sleep(3 * time.Second)
						s.wantLine(line...)
						s.release()
					}
					s.takeTurns(line...)
				})
			}
		}
	}
}

// One who was cut off for long finds its place gone, and takes the last one; it
// does not get the lock twice, nor before the others.
func TestL8_WhoComesBackTakesTheLastPlace(t *testing.T) {
	fake(t, func(s *stage) {
		first, second := s.stand(), s.stand()
		kit.Away(first.D)
		time.Sleep(20 * time.Second)
		s.wantLine(second)
		first.D.SetFaults(nil)
		time.Sleep(3 * time.Second)
		s.wantLine(second, first)
		s.release()
		s.takeTurns(second, first)
	})
}

// L9: keys of the line are evicted, each by itself, or all together, or the server
// comes back empty: everybody who lives gets the lock, without waiting for long.
func TestL9_LostKeys(t *testing.T) {
	all := []string{"x", kit.QueueKey, kit.TimeoutsKey, kit.HeartbeatsKey, kit.RequestsKey("x")}
	for set := range 1 << len(all) {
		var keys []string
		for i, key := range all {
			if set&(1<<i) != 0 {
				keys = append(keys, key)
			}
		}
		t.Run(strings.Join(keys, "+"), func(t *testing.T) {
			fake(t, func(s *stage) {
				line := s.line(3)
				time.Sleep(7 * time.Second)
				for _, key := range keys {
					s.Do("DEL", key)
				}
				start := time.Now()
				if slices.Contains(keys, "x") {
					_ = s.h.Unlock()
				} else {
					time.Sleep(4 * time.Second)
					s.release()
				}
				var all sync.WaitGroup
				for _, waiter := range line {
					all.Go(func() { kit.Turn(s.T)(waiter.Await(time.Hour)) })
				}
				all.Wait()
				s.within(start, 8*time.Second)
			})
		})
	}
}

// L9: one who stands in the sets but not in the line takes a place; one who
// stands in the line but in no set is dropped.
func TestL9_HalfAnEntry(t *testing.T) {
	fake(t, func(s *stage) {
		first, second := s.stand(), s.stand()
		s.Do("LREM", kit.QueueKey, "0", first.Owner.String())
		s.Do("LPUSH", kit.QueueKey, "ffffffff-0000-4000-8000-000000000000:1")
		time.Sleep(4 * time.Second)
		s.wantLine(second, first)
		s.Do("ZREM", kit.TimeoutsKey, second.Owner.String())
		s.Do("ZREM", kit.HeartbeatsKey, first.Owner.String())
		time.Sleep(4 * time.Second)
		s.wantLine(second, first)
		s.release()
		s.takeTurns(second, first)
	})
}

// P7: what a try does is no more with a long line than with a short one.
func TestP7_LongLines(t *testing.T) {
	fake(t, func(s *stage) {
		for i := range 3000 { // Java's, which live long
			owner := fmt.Sprintf("ffffffff-0000-4000-8000-000000000000:%d", i)
			s.Do("RPUSH", kit.QueueKey, owner)
			s.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(time.Now().Add(24*time.Hour).UnixMilli()), owner)
		}
		waiter := s.stand()
		s.WantReply("3001", "LLEN", kit.QueueKey)
		time.Sleep(time.Minute)
		s.WantReply("3001", "LLEN", kit.QueueKey) // no second place, though it is too far back to be looked for
		waiter.Cancel(nil)
		synctest.Wait()
		s.WantReply("3000", "LLEN", kit.QueueKey)
		s.WantReply("3000", "ZCARD", kit.TimeoutsKey)
		s.Do("DEL", kit.QueueKey)
		s.release()
		kit.Unlock(s.T, kit.Must(s.T)(s.newLock().Lock(background)))
	})
}

// A3: the lock was deleted. Its holder's Unlock is an error, and
// whoever is next is told all the same.
func TestA3_UnlockOfALockThatIsGone(t *testing.T) {
	fake(t, func(s *stage) {
		waiter := s.stand()
		time.Sleep(time.Second)
		s.Do("DEL", "x")
		start := time.Now()
		kit.WantError(s.T, s.h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		s.takeTurns(waiter)
		s.within(start, 0)
	})
}

// A nested Lock takes no place, and takes one away that was left behind.
func TestFairNestedTakesNoPlace(t *testing.T) {
	fake(t, func(s *stage) {
		s.release()
		mu := s.newLock()
		s.h = kit.Must(s.T)(mu.Lock(background))
		waiter, owner := s.stand(), s.h.Owner()
		s.Do("LPUSH", kit.QueueKey, owner.String())
		s.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), owner.String())
		nested := kit.Must(s.T)(mu.Lock(s.h.Context()))
		s.WantCount("x", owner, 2)
		s.wantLine(waiter)
		kit.Unlock(s.T, nested)
		s.release()
		s.takeTurns(waiter)
	})
}

// What a waiter was granted that has given up is given back though no answer comes: that it leaves the line,
// too, holds up nothing.
func TestGivenBackThoughNoAnswerComes(t *testing.T) {
	fake(t, func(s *stage) {
		waiter := s.stand()
		time.Sleep(time.Second)
		kit.All(waiter.D, memdriver.Fault{LoseReply: true})
		waiter.D.LoseMessages(true)
		s.release() // to the waiter, which does not hear of it, and asks
		time.Sleep(1500 * time.Millisecond)
		s.WantReply("1", "HLEN", "x")
		waiter.Cancel(nil)
		if _, got := <-waiter.Got; got {
			s.Error("it has the lock")
		}
		time.Sleep(3 * time.Second)
		s.WantReply("0", "EXISTS", "x")
	})
}

// The next in line may be cut off for 1.9 s, from whichever moment on: a request of its that is lost is sent again
// after two, and two seconds and the 1.5 s between two requests are less than what its place lives for.
func TestShortCutCostsNoPlace(t *testing.T) {
	for from := time.Duration(0); from < 1500*time.Millisecond; from += 100 * time.Millisecond {
		fake(t, func(s *stage) {
			first, second := s.stand(), s.stand()
			time.Sleep(2*time.Second + from)
			cutOff(first)
			time.Sleep(1900 * time.Millisecond)
			s.release()
			back(first)
			s.wantLine(second) // and the first was granted it, and asks
			s.takeTurns(first, second)
		})
	}
}

// A14: one who does not wait takes no place, not for a moment, and is refused
// while others stand in line.
func TestA14_TryLockTakesNoPlace(t *testing.T) {
	fake(t, func(s *stage) {
		c, d := s.Client()
		mu := c.NewFairMutex("x")
		_, err := mu.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.Holder != s.h.Owner() || locked.TTL <= 0 {
			s.Errorf("TryLock of a held lock: %v", err)
		}
		kit.Fails(s.T, holdfast.ErrLocked)(mu.Lock(background, holdfast.Wait(0)))
		s.wantNoLine()
		waiter := s.stand()
		score := s.Do("ZSCORE", kit.TimeoutsKey, waiter.Owner.String())
		cutOff(waiter) // it does not hear that it is next
		s.Do("DEL", "x")
		_, err = mu.TryLock(background)
		if !errors.As(err, &locked) || !locked.Holder.IsZero() || locked.TTL != 0 {
			s.Errorf("TryLock of a free lock with a line: %v", err)
		}
		s.wantLine(waiter)
		s.WantReply(score, "ZSCORE", kit.TimeoutsKey, waiter.Owner.String())
		back(waiter)
		seen := kit.Count(d)
		s.takeTurns(waiter)
		kit.Unlock(s.T, kit.Must(s.T)(mu.TryLock(background)))
		if n := seen.All(); n != 2 {
			s.Errorf("%d calls for a TryLock and its Unlock", n)
		}
	})
}

// Who gave up during an outage of a few seconds has left the line when it is over, though nobody else asks.
func TestWhoGaveUpInAnOutageLeavesTheLine(t *testing.T) {
	fake(t, func(s *stage) {
		waiter := s.stand()
		kit.Away(waiter.D)
		waiter.Cancel(nil)
		<-waiter.Got
		time.Sleep(7 * time.Second)
		waiter.D.SetFaults(nil)
		time.Sleep(20 * time.Second)
		s.WantReply("0", "LLEN", kit.QueueKey)
		s.release()
		time.Sleep(3 * time.Minute)
	})
}

// L7: while it is somebody else's turn who does not come, nobody asks on and on.
func TestL7_NoBusyLoop(t *testing.T) {
	fake(t, func(s *stage) {
		s.release()
		start := time.Now()
		s.Do("RPUSH", kit.QueueKey, "java:1")
		s.Do("ZADD", kit.TimeoutsKey, strconv.FormatInt(start.Add(time.Minute).UnixMilli(), 10), "java:1")
		c, d := s.Client()
		asked := kit.Count(d)
		s.h = kit.Must(s.T)(c.NewFairMutex("x").Lock(background))
		kit.Took(s.T, time.Since(start), time.Minute, time.Minute+time.Second, "it got it after %v")
		if n := asked.Of("acquire"); n > 45 {
			s.Errorf("it asked %d times", n)
		}
		s.release()
	})
}

// S24: whose clock is wrong does not matter: times are the server's.
// The clock of a client is nowhere in its calls; skewed drivers are in the stress
// test of the mutex. Here: no argument of any call is a time but the limit.
func TestS24_NoClientTimes(t *testing.T) {
	fake(t, func(s *stage) {
		other, d := s.Client()
		now := fmt.Sprint(time.Now().UnixMilli())[:6]
		seen := kit.Spy(d)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		kit.Fails(s.T, context.DeadlineExceeded)(other.NewFairMutex("x").Lock(ctx))
		s.release()
		time.Sleep(time.Minute)
		for _, args := range seen() {
			for _, arg := range args[1:] {
				if strings.HasPrefix(arg, now) {
					s.Errorf("a time of the client's: %v", args)
				}
			}
		}
	})
}
