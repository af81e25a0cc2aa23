package fair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The fair lock under fake time: the line over processes, and whichever way one
// leaves it.

// stand has a client of its own wait for a fair lock, and returns when it stands
// in line. The hold is to be had from got.
func stand(w *kit.World, name string, options ...holdfast.LockOption) *kit.Standing {
	w.T.Helper()
	c, d := w.Client()
	return standAs(w, c, d, name, options...)
}

func standAs(w *kit.World, c *holdfast.Client, d *memdriver.Driver, name string, options ...holdfast.LockOption) *kit.Standing {
	w.T.Helper()
	return w.WaitAs(c, d, c.NewFairMutex(name), options...)
}

// wantLine checks who stands in line, in Redis and by Inspect.
func wantLine(w *kit.World, name string, waiters ...*kit.Standing) {
	w.T.Helper()
	want, texts := make([]holdfast.Owner, len(waiters)), make([]string, len(waiters))
	for i, s := range waiters {
		want[i], texts[i] = s.Owner, s.Owner.String()
	}
	w.WantReply(strings.Join(texts, " "), "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1")
	c, _ := w.Client()
	found, err := c.NewFairMutex(name).Inspect(background)
	if err != nil || !slices.Equal(found.Waiters, want) {
		w.T.Errorf("Inspect: waiters %v, %v, want %v", found.Waiters, err, want)
	}
}

// wantNoLine checks that nothing of a line is left.
func wantNoLine(w *kit.World) {
	w.T.Helper()
	synctest.Wait()
	w.WantReply("", "KEYS", "redisson_lock_*")
	w.WantReply("", "KEYS", "holdfast_*")
}

func fairHolder(t *testing.T, w *kit.World, name string, options ...holdfast.LockOption) *holdfast.Hold {
	t.Helper()
	c, _ := w.Client()
	return kit.Must(t)(c.NewFairMutex(name).Lock(background, options...))
}

func TestFairFirstComeFirstServedOverProcesses(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		shared, d := w.Client()
		line := make([]*kit.Standing, 12)
		for i := range line {
			if i%3 == 0 {
				line[i] = standAs(w, shared, d, "x")
			} else {
				line[i] = stand(w, "x")
			}
			time.Sleep(100 * time.Millisecond)
		}
		wantLine(w, "x", line...)
		time.Sleep(6 * time.Minute) // longer than the first's score, and than any belief
		wantLine(w, "x", line...)
		kit.Unlock(t, h)
		for i, s := range line {
			start := time.Now()
			h := s.Hold(t)
			if took := time.Since(start); took > 0 {
				t.Errorf("waiter %d: told %v after the release", i, took)
			}
			for _, later := range line[i+1:] {
				if !later.Waits() {
					t.Fatalf("two hold it, or one came before its turn")
				}
			}
			time.Sleep(5 * time.Second)
			if left := len(line) - i - 1; left > 0 { // and the clock's two
				w.WantReply(fmt.Sprint(left+2), "ZCARD", "holdfast_lock_waiting:{x}")
			}
			kit.Unlock(t, h)
		}
		wantNoLine(w)
	})
}

// Each waiter asks every three seconds and is told once; the others are not.
func TestFairWaitingIsCheap(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		c, d := w.Client()
		seen := kit.Count(d)
		const n = 50
		line := make([]*kit.Standing, n)
		for i := range line {
			line[i] = standAs(w, c, d, "x")
		}
		time.Sleep(time.Minute)
		if got := seen.Of("acquire"); got > n*(2+60*2/3) {
			t.Errorf("%d tries of %d waiters in a minute", got, n)
		}
		before := seen.Of("acquire")
		kit.Unlock(t, h)
		for _, s := range line {
			kit.Unlock(t, s.Hold(t))
		}
		if got := seen.Of("acquire") - before; got > 2*n {
			t.Errorf("%d tries to hand it to %d waiters", got, n)
		}
		wantNoLine(w)
	})
}

// A14: one who does not wait takes no place, not for a moment, and is refused
// while others stand in line.
func TestA14_TryLockTakesNoPlace(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		mu := c.NewFairMutex("x")
		h := fairHolder(t, w, "x")
		_, err := mu.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.Holder != h.Owner() || locked.TTL <= 0 {
			t.Errorf("TryLock of a held lock: %v", err)
		}
		_, err = mu.Lock(background, holdfast.Wait(0))
		kit.WantError(t, err, holdfast.ErrLocked)
		wantNoLine(w)
		s := stand(w, "x")
		score := w.Do("ZSCORE", "redisson_lock_timeout:{x}", s.Owner.String())
		kit.Silent(s.D, memdriver.Fault{LoseRequest: true}) // it does not hear that it is next
		s.D.LoseMessages(true)
		w.Do("DEL", "x") // a release would grant it
		_, err = mu.TryLock(background)
		if !errors.As(err, &locked) || !locked.Holder.IsZero() || locked.TTL != 0 {
			t.Errorf("TryLock of a free lock with a line: %v", err)
		}
		wantLine(w, "x", s)
		w.WantReply(score, "ZSCORE", "redisson_lock_timeout:{x}", s.Owner.String())
		s.D.SetFaults(nil)
		s.D.LoseMessages(false)
		seen := kit.Count(d)
		kit.Unlock(t, s.Hold(t))
		kit.Unlock(t, kit.Must(t)(mu.TryLock(background)))
		if n := seen.All(); n != 2 {
			t.Errorf("%d calls for a TryLock and its Unlock", n)
		}
		wantNoLine(w)
	})
}

// ways are how a waiter can leave the line.
var ways = map[string]func(s *kit.Standing){
	"cancelled": func(s *kit.Standing) { s.Cancel(errors.New("changed my mind")) },
	"closed": func(s *kit.Standing) {
		if err := s.C.Close(); err != nil {
			panic(err)
		}
	},
	"silenced": func(s *kit.Standing) { // as one that was killed, or cut off
		kit.Silent(s.D, memdriver.Fault{LoseRequest: true})
		s.D.LoseMessages(true)
	},
}

// L6: whichever way a waiter leaves, it is out of the line at once, or, if it
// can say nothing any more, within seconds, and the next one gets the lock.
func TestL6_WhoeverLeavesIsOutOfTheLine(t *testing.T) {
	for name, leave := range ways {
		for place := range 3 {
			t.Run(fmt.Sprint(name, "/", place), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					h := fairHolder(t, w, "x")
					line := []*kit.Standing{stand(w, "x"), stand(w, "x"), stand(w, "x")}
					time.Sleep(time.Minute)
					leaver := line[place]
					line = slices.Delete(line, place, place+1)
					leave(leaver)
					synctest.Wait()
					bound := time.Duration(0)
					if name == "silenced" {
						bound = 11 * time.Second
					} else {
						wantLine(w, "x", line...)
					}
					start := time.Now()
					kit.Unlock(t, h)
					for _, s := range line {
						h := s.Hold(t)
						if took := time.Since(start); took > bound {
							t.Errorf("got it after %v", took)
						}
						kit.Unlock(t, h)
					}
					leaver.Cancel(nil)
					time.Sleep(2 * time.Minute) // if nobody came after it, nobody has taken it out
					wantNoLine(w)
				})
			})
		}
	}
}

// L6, with Wait.
func TestL6_WaitRunsOut(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		first := stand(w, "x", holdfast.Wait(5*time.Second))
		second := stand(w, "x")
		<-first.Got
		kit.WantError(t, first.Err, holdfast.ErrLocked)
		synctest.Wait()
		wantLine(w, "x", second)
		kit.Unlock(t, h)
		kit.Unlock(t, second.Hold(t))
		wantNoLine(w)
	})
}

// L5: the first in line is told, and gives up at that very moment: the next one
// is told in its place.
func TestL5_WhoLeavesPassesTheMessageOn(t *testing.T) {
	for offset := -12 * time.Millisecond; offset <= 12*time.Millisecond; offset += time.Millisecond {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			first := stand(w, "x", holdfast.Wait(time.Minute))
			second := stand(w, "x")
			for _, s := range []*kit.Standing{first, second} {
				kit.Silent(s.D, memdriver.Fault{DelayRequest: 5 * time.Millisecond, DelayReply: 5 * time.Millisecond})
			}
			time.Sleep(time.Minute + offset)
			start := time.Now()
			kit.Unlock(t, h)
			if h, ok := <-first.Got; ok {
				kit.Unlock(t, h)
			} else {
				kit.WantError(t, first.Err, holdfast.ErrLocked)
			}
			kit.Unlock(t, second.Hold(t))
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("released %v after the first left: the second got it after %v", offset, took)
			}
			time.Sleep(time.Second)
			wantNoLine(w)
		})
	}
}

// L7: nobody asks in a loop while the first in line is dead and the lock free.
func TestL7_NobodyAsksInALoop(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		dead := stand(w, "x")
		c, d := w.Client()
		line := make([]*kit.Standing, 5)
		for i := range line {
			line[i] = standAs(w, c, d, "x")
		}
		kit.Silent(dead.D, memdriver.Fault{LoseRequest: true})
		dead.D.LoseMessages(true)
		seen := kit.Count(d)
		kit.Unlock(t, h)
		kit.Unlock(t, line[0].Hold(t))
		if n := seen.Of("acquire"); n > 5*5 {
			t.Errorf("%d tries of 5 waiters in 10s", n)
		}
		for _, s := range line[1:] {
			kit.Unlock(t, s.Hold(t))
		}
		dead.Cancel(nil)
		time.Sleep(time.Minute)
	})
}

// Who gave up during an outage of a few seconds has left the line when it is over, though nobody else asks.
func TestWhoGaveUpInAnOutageLeavesTheLine(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		holder, _ := w.Client()
		h := kit.Must(t)(holder.NewFairMutex("x").Lock(background))
		c, d := w.Client()
		ctx, cancel := context.WithCancel(background)
		got := kit.Waiting(t, c.NewFairMutex("x"), ctx)
		time.Sleep(100 * time.Millisecond)
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		cancel()
		<-got
		time.Sleep(7 * time.Second)
		d.SetFaults(nil)
		time.Sleep(20 * time.Second)
		w.WantReply("0", "LLEN", "redisson_lock_queue:{x}")
		kit.Unlock(t, h)
		time.Sleep(3 * time.Minute)
	})
}
