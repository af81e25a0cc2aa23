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
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

const (
	queueKey      = "redisson_lock_queue:{x}"
	timeoutsKey   = "redisson_lock_timeout:{x}"
	heartbeatsKey = "holdfast_lock_waiting:{x}"
)

// Each fault at each script of two waiters: both get the lock, in order, one hold
// each, and nothing is left.
func TestS13_FairFaultsHaveNoSecondEffect(t *testing.T) {
	for name, fault := range faults {
		for _, script := range []string{"acquire", "release", "leave", "renew"} {
			for n := range 3 {
				if n > 0 && script != "acquire" {
					continue
				}
				t.Run(fmt.Sprint(name, "/", script, n), func(t *testing.T) {
					fake(t, func(t *testing.T, w *world) { fairSteps(t, w, script, n, fault) })
				})
			}
		}
	}
}

// fairSteps has three stand in line: the first suffers the fault at its n-th
// script, the second leaves with it, the third just waits.
func fairSteps(t *testing.T, w *world, script string, n int, fault memdriver.Fault) {
	h := fairHolder(t, w, "x")
	suffer := func(d *memdriver.Driver) {
		nth(d, script, append(make([]memdriver.Fault, n), fault)...)
	}
	c, d := w.client()
	suffer(d)
	first := w.standAs(c, d, "x")
	time.Sleep(4 * time.Second)
	c, d = w.client()
	suffer(d)
	second := w.standAs(c, d, "x")
	time.Sleep(4 * time.Second)
	third := w.stand("x")
	time.Sleep(100 * time.Millisecond)
	second.cancel(nil)
	unlock(t, h)
	holds := first.hold(t)
	if !third.waits() {
		t.Error("the third came first")
	}
	time.Sleep(15 * time.Second) // renewals
	w.wantCount("x", first.owner, 1)
	unlock(t, holds)
	released := time.Now()
	h = third.hold(t)
	if took := time.Since(released); took > 6*time.Second {
		t.Errorf("the third waited %v", took)
	}
	w.wantCount("x", third.owner, 1)
	time.Sleep(time.Minute)
	w.wantCount("x", third.owner, 1)
	unlock(t, h)
	time.Sleep(time.Minute)
	w.wantNoLine()
}

// A try is under way when its waiter gives up, and arrives after the waiter has
// left: its place goes at once, not when the belief in it ends.
func TestL6_DelayedTry(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"late":       {DelayRequest: 1500 * time.Millisecond},
		"reply lost": {DelayRequest: 1500 * time.Millisecond, LoseReply: true},
		"twice":      {Repeat: true, RepeatAfter: 15 * time.Millisecond, DelayReply: 20 * time.Millisecond},
	} {
		for _, after := range []time.Duration{0, 10 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprint(name, "/", after), func(t *testing.T) {
				fake(t, func(t *testing.T, w *world) {
					h := fairHolder(t, w, "x")
					c, d := w.client()
					once(d, "acquire", fault)
					s := w.standAs(c, d, "x")
					time.Sleep(after)
					s.cancel(nil)
					time.Sleep(5 * time.Second)
					w.wantNoLine()
					unlock(t, h)
				})
			})
		}
	}
}

// An acquire that was not answered, and comes after its hold was given back,
// keeps no place in line.
func TestLateAcquireKeepsNoPlaceAfterTheHold(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		mu := c.NewFairMutex("x")
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := must(t)(other.NewFairMutex("x").Lock(background))
		once(d, "acquire", memdriver.Fault{DelayRequest: 1900 * time.Millisecond})
		_, err := mu.TryLock(ctx)
		wantError(t, err, holdfast.ErrLocked) // the guess of the server's clock is now 950 ms ahead
		unlock(t, h)
		once(d, "acquire", memdriver.Fault{DelayRequest: 2500 * time.Millisecond, LoseReply: true})
		unlock(t, must(t)(mu.Lock(ctx)))
		h = must(t)(other.NewFairMutex("x").Lock(background))
		time.Sleep(600 * time.Millisecond)
		w.wantReply("1", "LLEN", queueKey) // here it comes
		time.Sleep(2 * time.Second)
		w.wantNoLine()
		w.wantCount("x", h.Owner(), 1)
		unlock(t, h)
	})
}

// Redis answers nobody for a while, and then everybody, in whichever order: the
// line stands as it did. Others who are not in line do not get past it either.
func TestL8_SilenceOfTheServerCostsNobodyHisPlace(t *testing.T) {
	for _, silence := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 15 * time.Second, 50 * time.Second} {
		for _, reversed := range []bool{false, true} {
			fake(t, func(t *testing.T, w *world) {
				h := fairHolder(t, w, "x", holdfast.FixedLease(10*time.Minute))
				line := []*standing{w.stand("x"), w.stand("x"), w.stand("x"), w.stand("x")}
				time.Sleep(2 * time.Second)
				for _, s := range line {
					silent(s.d, lostRequest)
				}
				time.Sleep(silence)
				try, _ := w.client()
				_, err := try.NewFairMutex("x").TryLock(background)
				wantError(t, err, holdfast.ErrLocked)
				for i := range line {
					if reversed {
						i = len(line) - 1 - i
					}
					line[i].d.SetFaults(nil)
					time.Sleep(300 * time.Millisecond)
				}
				time.Sleep(3 * time.Second)
				w.wantLine("x", line...)
				if t.Failed() {
					t.FailNow() // in another order, they would be waited for in vain
				}
				unlock(t, h)
				for _, s := range line {
					unlock(t, s.hold(t))
				}
				w.wantNoLine()
			})
		}
	}
}

// As above, and the lock is given back as soon as Redis answers again, before any
// of the waiters is heard.
func TestL8_ReleaseAfterSilenceGoesToTheFirst(t *testing.T) {
	for _, silence := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 15 * time.Second, 50 * time.Second} {
		for _, reversed := range []bool{false, true} {
			fake(t, func(t *testing.T, w *world) {
				h := fairHolder(t, w, "x", holdfast.FixedLease(10*time.Minute))
				line := []*standing{w.stand("x"), w.stand("x"), w.stand("x"), w.stand("x")}
				for _, s := range line {
					silent(s.d, lostRequest)
				}
				time.Sleep(silence)
				unlock(t, h)
				for i := range line {
					if reversed {
						i = len(line) - 1 - i
					}
					line[i].d.SetFaults(nil)
					time.Sleep(300 * time.Millisecond)
				}
				for i, s := range line {
					h := s.hold(t)
					for _, later := range line[i+1:] {
						if !later.waits() {
							t.Errorf("after %v: one came before number %d", silence, i)
						}
					}
					unlock(t, h)
				}
				w.wantNoLine()
			})
		}
	}
}

// One who was cut off for long finds its place gone, and takes the last one; it
// does not get the lock twice, nor before the others.
func TestL8_WhoComesBackTakesTheLastPlace(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		first, second := w.stand("x"), w.stand("x")
		silent(first.d, lostRequest)
		time.Sleep(20 * time.Second)
		w.wantLine("x", second)
		first.d.SetFaults(nil)
		time.Sleep(3 * time.Second)
		w.wantLine("x", second, first)
		unlock(t, h)
		h2 := second.hold(t)
		if !first.waits() {
			t.Error("it came before the other")
		}
		unlock(t, h2)
		unlock(t, first.hold(t))
		w.wantNoLine()
	})
}

// L9: keys of the line are evicted, each by itself, or all together, or the server
// comes back empty: everybody who lives gets the lock, without waiting for long.
func TestL9_LostKeys(t *testing.T) {
	all := []string{"x", queueKey, timeoutsKey, heartbeatsKey, asksKey("x")}
	for set := range 1 << len(all) {
		var keys []string
		for i, key := range all {
			if set&(1<<i) != 0 {
				keys = append(keys, key)
			}
		}
		t.Run(strings.Join(keys, "+"), func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				h := fairHolder(t, w, "x")
				line := []*standing{w.stand("x"), w.stand("x"), w.stand("x")}
				time.Sleep(7 * time.Second)
				for _, key := range keys {
					w.do("DEL", key)
				}
				start := time.Now()
				if !slices.Contains(keys, "x") {
					time.Sleep(4 * time.Second)
					unlock(t, h)
				} else {
					_ = h.Unlock()
				}
				got := make(chan struct{}, len(line))
				for _, s := range line {
					go func() {
						unlock(t, s.hold(t))
						got <- struct{}{}
					}()
				}
				for range line {
					<-got
				}
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("all had it after %v", took)
				}
				w.wantNoLine()
			})
		})
	}
}

// L9: one who stands in the sets but not in the line takes a place; one who
// stands in the line but in no set is dropped.
func TestL9_HalfAnEntry(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		first, second := w.stand("x"), w.stand("x")
		w.do("LREM", queueKey, "0", first.owner.String())
		w.do("LPUSH", queueKey, "ffffffff-0000-4000-8000-000000000000:1")
		time.Sleep(4 * time.Second)
		w.wantLine("x", second, first)
		w.do("ZREM", timeoutsKey, second.owner.String())
		w.do("ZREM", heartbeatsKey, first.owner.String())
		time.Sleep(4 * time.Second)
		w.wantLine("x", second, first)
		unlock(t, h)
		unlock(t, second.hold(t))
		unlock(t, first.hold(t))
		w.wantNoLine()
	})
}

// P7: what a try does is no more with a long line than with a short one.
func TestP7_LongLines(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		for i := range 3000 { // Java's, which live long
			owner := fmt.Sprintf("ffffffff-0000-4000-8000-000000000000:%d", i)
			w.do("RPUSH", queueKey, owner)
			w.do("ZADD", timeoutsKey, fmt.Sprint(time.Now().Add(24*time.Hour).UnixMilli()), owner)
		}
		s := w.stand("x")
		w.wantReply("3001", "LLEN", queueKey)
		time.Sleep(time.Minute)
		w.wantReply("3001", "LLEN", queueKey) // no second place, though it is too far back to be looked for
		s.cancel(nil)
		synctest.Wait()
		w.wantReply("3000", "LLEN", queueKey)
		w.wantReply("3000", "ZCARD", timeoutsKey)
		w.do("DEL", queueKey)
		unlock(t, h)
		c, _ := w.client()
		unlock(t, must(t)(c.NewFairMutex("x").Lock(background)))
		w.wantNoLine()
	})
}

// A3, L11: the lock ran out, or was deleted. Its holder's Unlock is an error, and
// whoever is next is told all the same.
func TestA3_UnlockOfALockThatIsGone(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		s := w.stand("x")
		time.Sleep(time.Second)
		w.do("DEL", "x")
		start := time.Now()
		wantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		unlock(t, s.hold(t))
		if took := time.Since(start); took > 0 {
			t.Errorf("it was told after %v", took)
		}
		h = fairHolder(t, w, "x", holdfast.FixedLease(10500*time.Millisecond))
		s = w.stand("x")
		start = time.Now()
		unlock(t, s.hold(t))
		if took := time.Since(start); took > 10510*time.Millisecond {
			t.Errorf("waited %v for a lock that lived 10.5s", took)
		}
		_ = h.Unlock()
		w.wantNoLine()
	})
}

// A dead client's hold ends, with a dead waiter at the head: the next one gets it
// by itself, with nobody to tell it.
func TestFairHolderAndNextAreDead(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		h := must(t)(c.NewFairMutex("x").Lock(background))
		dead := w.stand("x")
		line := []*standing{w.stand("x"), w.stand("x")}
		silent(d, lostRequest)
		silent(dead.d, lostRequest)
		start := time.Now()
		first := line[0].hold(t)
		if took := time.Since(start); took > 30*time.Second+10*time.Millisecond {
			t.Errorf("got it after %v, the lease is 30s", took)
		}
		unlock(t, first)
		unlock(t, line[1].hold(t))
		dead.cancel(nil)
		_ = h.Unlock()
		time.Sleep(time.Minute)
		w.wantNoLine()
	})
}

// The server's clock jumps, as it may at a failover: nobody who lives is dropped,
// and the dead do not stay.
func TestS24_ServerClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Minute, -time.Minute, -time.Hour} {
		fake(t, func(t *testing.T, w *world) {
			h := fairHolder(t, w, "x")
			dead := w.stand("x")
			line := []*standing{w.stand("x"), w.stand("x"), w.stand("x")}
			silent(dead.d, lostRequest)
			dead.d.LoseMessages(true)
			time.Sleep(5 * time.Second)
			// As if the clock had jumped since it was last looked at.
			ms := fmt.Sprint(-jump.Milliseconds())
			for _, key := range []string{heartbeatsKey, timeoutsKey} {
				for member := range strings.FieldsSeq(w.do("ZRANGE", key, "0", "-1")) {
					w.do("ZINCRBY", key, ms, member)
				}
			}
			time.Sleep(10 * time.Second)
			w.wantLine("x", line...)
			unlock(t, h)
			for _, s := range line {
				unlock(t, s.hold(t))
			}
			dead.cancel(nil)
			w.wantNoLine()
		})
	}
}

// A nested Lock takes no place, and takes one away that was left behind.
func TestFairNestedTakesNoPlace(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		mu := c.NewFairMutex("x")
		h := must(t)(mu.Lock(background))
		s := w.stand("x")
		w.do("LPUSH", queueKey, h.Owner().String())
		w.do("ZADD", timeoutsKey, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), h.Owner().String())
		nested := must(t)(mu.Lock(h.Context()))
		w.wantCount("x", h.Owner(), 2)
		w.wantLine("x", s)
		unlock(t, nested)
		unlock(t, h)
		unlock(t, s.hold(t))
		w.wantNoLine()
	})
}

// What a waiter was granted that has given up is given back though no answer comes: that it leaves the line,
// too, holds up nothing.
func TestGivenBackThoughNoAnswerComes(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		held := must(t)(other.NewFairMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		ended := make(chan error, 1)
		go func() {
			_, err := c.NewFairMutex("x").Lock(ctx)
			ended <- err
		}()
		time.Sleep(time.Second)
		silent(d, memdriver.Fault{LoseReply: true})
		d.LoseMessages(true)
		unlock(t, held) // to the waiter, which does not hear of it, and asks
		time.Sleep(1500 * time.Millisecond)
		w.wantReply("1", "HLEN", "x")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock: %v", err)
		}
		time.Sleep(3 * time.Second)
		w.wantReply("0", "EXISTS", "x")
	})
}

// The next in line may be cut off for 1.9 s, from whichever moment on: a request of its that is lost is sent again after two, and
// two seconds and the 1.5 s between two requests are less than what its place lives for.
func TestShortCutCostsNoPlace(t *testing.T) {
	for from := time.Duration(0); from < 1500*time.Millisecond; from += 100 * time.Millisecond {
		fake(t, func(t *testing.T, w *world) {
			h := fairHolder(t, w, "x", holdfast.FixedLease(10*time.Minute))
			first, second := w.stand("x"), w.stand("x")
			time.Sleep(2*time.Second + from)
			silent(first.d, lostRequest)
			first.d.LoseMessages(true)
			time.Sleep(1900 * time.Millisecond)
			unlock(t, h)
			first.d.SetFaults(nil)
			first.d.LoseMessages(false)
			w.wantLine("x", second) // and the first was granted it, and asks
			order := make(chan *standing)
			for _, s := range []*standing{first, second} {
				go func() {
					h := s.hold(t)
					order <- s
					unlock(t, h)
				}()
			}
			if <-order != first {
				t.Errorf("cut off %v after it had begun to wait: it was overtaken", 2*time.Second+from)
			}
			<-order
			synctest.Wait()
			w.wantNoLine()
		})
	}
}

// An acquire that was not answered, and comes after its hold was given back, keeps no place in line, though a later
// acquire of the same owner was not answered at once either.
func TestLateAcquireKeepsNoPlaceAfterNestedHolds(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		mu := c.NewFairMutex("x")
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := must(t)(other.NewFairMutex("x").Lock(background))
		once(d, "acquire", memdriver.Fault{DelayRequest: 1900 * time.Millisecond})
		_, err := mu.TryLock(ctx)
		wantError(t, err, holdfast.ErrLocked) // the guess of the server's clock is now 950 ms ahead
		unlock(t, h)
		once(d, "acquire", memdriver.Fault{DelayRequest: 2500 * time.Millisecond, LoseReply: true})
		outer := must(t)(mu.Lock(ctx))
		once(d, "acquire", memdriver.Fault{Refuse: &driver.Error{MayHaveRun: true, Transient: true, Err: errors.New("connection reset")}})
		inner := must(t)(mu.Lock(ctx))
		unlock(t, inner)
		unlock(t, outer)
		h = must(t)(other.NewFairMutex("x").Lock(background))
		time.Sleep(10 * time.Second)
		w.wantNoLine()
		unlock(t, h)
	})
}
