package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The fair lock under fake time: the line over processes, and whichever way one
// leaves it.

// A14: one who does not wait takes no place, not for a moment, and is refused
// while others stand in line.
func TestA14_TryLockTakesNoPlace(t *testing.T) {
	fake(t, func(s *stage) {
		c, d := s.Client()
		mu := c.NewFairMutex("x")
		_, err := mu.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.Holder != s.h.Owner() || locked.TTL <= 0 {
			t.Errorf("TryLock of a held lock: %v", err)
		}
		kit.Fails(t, holdfast.ErrLocked)(mu.Lock(background, holdfast.Wait(0)))
		s.wantNoLine()
		waiter := s.stand()
		score := s.Do("ZSCORE", kit.TimeoutsKey, waiter.Owner.String())
		cutOff(waiter) // it does not hear that it is next
		s.Do("DEL", "x")
		_, err = mu.TryLock(background)
		if !errors.As(err, &locked) || !locked.Holder.IsZero() || locked.TTL != 0 {
			t.Errorf("TryLock of a free lock with a line: %v", err)
		}
		s.wantLine(waiter)
		s.WantReply(score, "ZSCORE", kit.TimeoutsKey, waiter.Owner.String())
		back(waiter)
		seen := kit.Count(d)
		s.takeTurns(waiter)
		kit.Unlock(t, kit.Must(t)(mu.TryLock(background)))
		if n := seen.All(); n != 2 {
			t.Errorf("%d calls for a TryLock and its Unlock", n)
		}
	})
}

// L6: whichever way a waiter leaves, it is out of the line at once, or, if it
// can say nothing any more, within seconds, and the next one gets the lock.
func TestL6_WhoeverLeavesIsOutOfTheLine(t *testing.T) {
	for name, way := range map[string]struct {
		leave func(s *stage, leaver *kit.Standing)
		bound time.Duration
	}{
		"cancelled":       {leave: func(_ *stage, leaver *kit.Standing) { leaver.Cancel(errors.New("changed my mind")) }},
		"closed":          {leave: func(s *stage, leaver *kit.Standing) { kit.OK(s.T, leaver.C.Close()) }},
		"silenced":        {func(_ *stage, leaver *kit.Standing) { cutOff(leaver) }, 11 * time.Second},
		"silent for long": {func(_ *stage, leaver *kit.Standing) { cutOff(leaver); time.Sleep(time.Minute) }, 0},
	} {
		for place := range 3 {
			t.Run(fmt.Sprint(name, "/", place), func(t *testing.T) {
				fake(t, func(s *stage) {
					line := s.line(3)
					time.Sleep(time.Minute)
					leaver := line[place]
					line = slices.Delete(line, place, place+1)
					way.leave(s, leaver)
					synctest.Wait()
					start := s.release()
					s.takeTurns(line...)
					s.within(start, way.bound)
					leaver.Cancel(nil)
					time.Sleep(2 * time.Minute) // if nobody came after it, nobody has taken it out
				})
			})
		}
	}
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
		s.h = kit.Must(t)(c.NewFairMutex("x").Lock(background))
		kit.Took(t, time.Since(start), time.Minute, time.Minute+time.Second, "it got it after %v")
		if n := asked.Of("acquire"); n > 45 {
			t.Errorf("it asked %d times", n)
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
		kit.Fails(t, context.DeadlineExceeded)(other.NewFairMutex("x").Lock(ctx))
		s.release()
		time.Sleep(time.Minute)
		for _, args := range seen() {
			for _, arg := range args[1:] {
				if strings.HasPrefix(arg, now) {
					t.Errorf("a time of the client's: %v", args)
				}
			}
		}
	})
}
