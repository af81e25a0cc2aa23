package test

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
)

// The fair lock under fake time: the line over processes, and whichever way one
// leaves it.

// standing is a waiter in line.
type standing struct {
	c       *holdfast.Client
	d       *memdriver.Driver
	owner   holdfast.Owner
	field   string // of the owner, in line
	cancel  context.CancelCauseFunc
	got     chan *holdfast.Hold // closed if it failed
	err     error
	entered time.Time
	granted time.Time     // when its wait ended
	ended   chan struct{} // closed then
}

// stand has a client of its own wait for a fair lock, and returns when it stands
// in line. The hold is to be had from got.
func (w *world) stand(name string, options ...holdfast.LockOption) *standing {
	w.t.Helper()
	c, d := w.client()
	return w.standAs(c, d, name, options...)
}

func (w *world) standAs(c *holdfast.Client, d *memdriver.Driver, name string, options ...holdfast.LockOption) *standing {
	w.t.Helper()
	return w.waitAs(c, d, c.NewFairMutex(name), options...)
}

// waitAs has a client wait for a lock, as an owner that it makes for that, and returns when it does.
func (w *world) waitAs(c *holdfast.Client, d *memdriver.Driver, l anyLock, options ...holdfast.LockOption) *standing {
	w.t.Helper()
	owner := c.NewOwner()
	s := waitWith(c, d, holdfast.WithOwner(background, owner), func(ctx context.Context) (*holdfast.Hold, error) { return l.Lock(ctx, options...) })
	s.owner, s.field = owner, w.kind.field(owner.String())
	return s
}

// waitWith has a client wait as lock does, and returns when it does.
func waitWith(c *holdfast.Client, d *memdriver.Driver, ctx context.Context, lock func(ctx context.Context) (*holdfast.Hold, error)) *standing {
	s := &standing{c: c, d: d, got: make(chan *holdfast.Hold, 1), entered: time.Now(), ended: make(chan struct{})}
	ctx, s.cancel = context.WithCancelCause(ctx)
	go func() {
		h, err := lock(ctx)
		s.granted = time.Now()
		if err == nil {
			s.got <- h
		}
		s.err = err
		close(s.got)
		close(s.ended)
	}()
	synctest.Wait()
	return s
}

// hold waits for the lock.
func (s *standing) hold(t *testing.T) *holdfast.Hold {
	t.Helper()
	return s.holdAfter(t, time.Hour)
}

// holdAfter waits so long for the lock, at most.
func (s *standing) holdAfter(t *testing.T, most time.Duration) *holdfast.Hold {
	t.Helper()
	select {
	case h, ok := <-s.got:
		if ok {
			return h
		}
	case <-time.After(most):
	}
	t.Fatalf("%v did not get it: %v", s.owner, s.err)
	return nil
}

// waits reports whether it waits still.
func (s *standing) waits() bool {
	synctest.Wait()
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// wantLine checks who stands in line, in Redis and by Inspect.
func (w *world) wantLine(name string, waiters ...*standing) {
	w.t.Helper()
	want, texts := make([]holdfast.Owner, len(waiters)), make([]string, len(waiters))
	for i, s := range waiters {
		want[i], texts[i] = s.owner, s.owner.String()
	}
	w.wantReply(strings.Join(texts, " "), "LRANGE", "redisson_lock_queue:{"+name+"}", "0", "-1")
	c, _ := w.client()
	found, err := c.NewFairMutex(name).Inspect(background)
	if err != nil || !slices.Equal(found.Waiters, want) {
		w.t.Errorf("Inspect: waiters %v, %v, want %v", found.Waiters, err, want)
	}
}

// wantNoLine checks that nothing of a line is left.
func (w *world) wantNoLine() {
	w.t.Helper()
	synctest.Wait()
	w.wantReply("", "KEYS", "redisson_lock_*")
	w.wantReply("", "KEYS", "holdfast_*")
}

func fairHolder(t *testing.T, w *world, name string, options ...holdfast.LockOption) *holdfast.Hold {
	t.Helper()
	c, _ := w.client()
	return must(t)(c.NewFairMutex(name).Lock(background, options...))
}

func TestFairFirstComeFirstServedOverProcesses(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		shared, d := w.client()
		line := make([]*standing, 12)
		for i := range line {
			if i%3 == 0 {
				line[i] = w.standAs(shared, d, "x")
			} else {
				line[i] = w.stand("x")
			}
			time.Sleep(100 * time.Millisecond)
		}
		w.wantLine("x", line...)
		time.Sleep(6 * time.Minute) // longer than the first's score, and than any belief
		w.wantLine("x", line...)
		unlock(t, h)
		for i, s := range line {
			start := time.Now()
			h := s.hold(t)
			if took := time.Since(start); took > 0 {
				t.Errorf("waiter %d: told %v after the release", i, took)
			}
			for _, later := range line[i+1:] {
				if !later.waits() {
					t.Fatalf("two hold it, or one came before its turn")
				}
			}
			time.Sleep(5 * time.Second)
			if left := len(line) - i - 1; left > 0 { // and the clock's two
				w.wantReply(fmt.Sprint(left+2), "ZCARD", "holdfast_lock_waiting:{x}")
			}
			unlock(t, h)
		}
		w.wantNoLine()
	})
}

// Each waiter asks every three seconds and is told once; the others are not.
func TestFairWaitingIsCheap(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		c, d := w.client()
		seen := count(d)
		const n = 50
		line := make([]*standing, n)
		for i := range line {
			line[i] = w.standAs(c, d, "x")
		}
		time.Sleep(time.Minute)
		if got := seen.of("acquire"); got > n*(2+60*2/3) {
			t.Errorf("%d tries of %d waiters in a minute", got, n)
		}
		before := seen.of("acquire")
		unlock(t, h)
		for _, s := range line {
			unlock(t, s.hold(t))
		}
		if got := seen.of("acquire") - before; got > 2*n {
			t.Errorf("%d tries to hand it to %d waiters", got, n)
		}
		w.wantNoLine()
	})
}

// A14: one who does not wait takes no place, not for a moment, and is refused
// while others stand in line.
func TestA14_TryLockTakesNoPlace(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		mu := c.NewFairMutex("x")
		h := fairHolder(t, w, "x")
		_, err := mu.TryLock(background)
		var locked *holdfast.LockedError
		if !errors.As(err, &locked) || locked.Holder != h.Owner() || locked.TTL <= 0 {
			t.Errorf("TryLock of a held lock: %v", err)
		}
		_, err = mu.Lock(background, holdfast.Wait(0))
		wantError(t, err, holdfast.ErrLocked)
		w.wantNoLine()
		s := w.stand("x")
		score := w.do("ZSCORE", "redisson_lock_timeout:{x}", s.owner.String())
		silent(s.d, memdriver.Fault{LoseRequest: true}) // it does not hear that it is next
		s.d.LoseMessages(true)
		w.do("DEL", "x") // a release would grant it
		_, err = mu.TryLock(background)
		if !errors.As(err, &locked) || !locked.Holder.IsZero() || locked.TTL != 0 {
			t.Errorf("TryLock of a free lock with a line: %v", err)
		}
		w.wantLine("x", s)
		w.wantReply(score, "ZSCORE", "redisson_lock_timeout:{x}", s.owner.String())
		s.d.SetFaults(nil)
		s.d.LoseMessages(false)
		seen := count(d)
		unlock(t, s.hold(t))
		unlock(t, must(t)(mu.TryLock(background)))
		if n := seen.all(); n != 2 {
			t.Errorf("%d calls for a TryLock and its Unlock", n)
		}
		w.wantNoLine()
	})
}

// ways are how a waiter can leave the line.
var ways = map[string]func(s *standing){
	"cancelled": func(s *standing) { s.cancel(errors.New("changed my mind")) },
	"closed": func(s *standing) {
		if err := s.c.Close(); err != nil {
			panic(err)
		}
	},
	"silenced": func(s *standing) { // as one that was killed, or cut off
		silent(s.d, memdriver.Fault{LoseRequest: true})
		s.d.LoseMessages(true)
	},
}

// L6: whichever way a waiter leaves, it is out of the line at once, or, if it
// can say nothing any more, within seconds, and the next one gets the lock.
func TestL6_WhoeverLeavesIsOutOfTheLine(t *testing.T) {
	for name, leave := range ways {
		for place := range 3 {
			t.Run(fmt.Sprint(name, "/", place), func(t *testing.T) {
				fake(t, func(t *testing.T, w *world) {
					h := fairHolder(t, w, "x")
					line := []*standing{w.stand("x"), w.stand("x"), w.stand("x")}
					time.Sleep(time.Minute)
					leaver := line[place]
					line = slices.Delete(line, place, place+1)
					leave(leaver)
					synctest.Wait()
					bound := time.Duration(0)
					if name == "silenced" {
						bound = 11 * time.Second
					} else {
						w.wantLine("x", line...)
					}
					start := time.Now()
					unlock(t, h)
					for _, s := range line {
						h := s.hold(t)
						if took := time.Since(start); took > bound {
							t.Errorf("got it after %v", took)
						}
						unlock(t, h)
					}
					leaver.cancel(nil)
					time.Sleep(2 * time.Minute) // if nobody came after it, nobody has taken it out
					w.wantNoLine()
				})
			})
		}
	}
}

// L6, with Wait.
func TestL6_WaitRunsOut(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		first := w.stand("x", holdfast.Wait(5*time.Second))
		second := w.stand("x")
		<-first.got
		wantError(t, first.err, holdfast.ErrLocked)
		synctest.Wait()
		w.wantLine("x", second)
		unlock(t, h)
		unlock(t, second.hold(t))
		w.wantNoLine()
	})
}

// L5: the first in line is told, and gives up at that very moment: the next one
// is told in its place.
func TestL5_WhoLeavesPassesTheMessageOn(t *testing.T) {
	for offset := -12 * time.Millisecond; offset <= 12*time.Millisecond; offset += time.Millisecond {
		fake(t, func(t *testing.T, w *world) {
			h := fairHolder(t, w, "x")
			first := w.stand("x", holdfast.Wait(time.Minute))
			second := w.stand("x")
			for _, s := range []*standing{first, second} {
				silent(s.d, memdriver.Fault{DelayRequest: 5 * time.Millisecond, DelayReply: 5 * time.Millisecond})
			}
			time.Sleep(time.Minute + offset)
			start := time.Now()
			unlock(t, h)
			if h, ok := <-first.got; ok {
				unlock(t, h)
			} else {
				wantError(t, first.err, holdfast.ErrLocked)
			}
			unlock(t, second.hold(t))
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("released %v after the first left: the second got it after %v", offset, took)
			}
			time.Sleep(time.Second)
			w.wantNoLine()
		})
	}
}

// L7: nobody asks in a loop while the first in line is dead and the lock free.
func TestL7_NobodyAsksInALoop(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		dead := w.stand("x")
		c, d := w.client()
		line := make([]*standing, 5)
		for i := range line {
			line[i] = w.standAs(c, d, "x")
		}
		silent(dead.d, memdriver.Fault{LoseRequest: true})
		dead.d.LoseMessages(true)
		seen := count(d)
		unlock(t, h)
		unlock(t, line[0].hold(t))
		if n := seen.of("acquire"); n > 5*5 {
			t.Errorf("%d tries of 5 waiters in 10s", n)
		}
		for _, s := range line[1:] {
			unlock(t, s.hold(t))
		}
		dead.cancel(nil)
		time.Sleep(time.Minute)
	})
}

var lostRequest = memdriver.Fault{LoseRequest: true}

// Who gave up during an outage of a few seconds has left the line when it is over, though nobody else asks.
func TestWhoGaveUpInAnOutageLeavesTheLine(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		holder, _ := w.client()
		h := must(t)(holder.NewFairMutex("x").Lock(background))
		c, d := w.client()
		ctx, cancel := context.WithCancel(background)
		got := waiting(t, c.NewFairMutex("x"), ctx)
		time.Sleep(100 * time.Millisecond)
		silent(d, memdriver.Fault{LoseRequest: true})
		cancel()
		<-got
		time.Sleep(7 * time.Second)
		d.SetFaults(nil)
		time.Sleep(20 * time.Second)
		w.wantReply("0", "LLEN", "redisson_lock_queue:{x}")
		unlock(t, h)
		time.Sleep(3 * time.Minute)
	})
}
