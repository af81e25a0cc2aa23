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
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Each fault at each script of two waiters: both get the lock, in order, one hold
// each, and nothing is left.
func TestS13_FairFaultsHaveNoSecondEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, script := range []string{"acquire", "release", "leave", "renew"} {
			for n := range 3 {
				if n > 0 && script != "acquire" {
					continue
				}
				t.Run(fmt.Sprint(name, "/", script, n), func(t *testing.T) {
					kit.Fake(t, func(t *testing.T, w *kit.World) { fairSteps(t, w, script, n, fault) })
				})
			}
		}
	}
}

// fairSteps has three stand in line: the first suffers the fault at its n-th
// script, the second leaves with it, the third just waits.
func fairSteps(t *testing.T, w *kit.World, script string, n int, fault memdriver.Fault) {
	h := fairHolder(t, w, "x")
	suffer := func(d *memdriver.Driver) {
		kit.Nth(d, script, append(make([]memdriver.Fault, n), fault)...)
	}
	c, d := w.Client()
	suffer(d)
	first := standAs(w, c, d, "x")
	time.Sleep(4 * time.Second)
	c, d = w.Client()
	suffer(d)
	second := standAs(w, c, d, "x")
	time.Sleep(4 * time.Second)
	third := stand(w, "x")
	time.Sleep(100 * time.Millisecond)
	second.Cancel(nil)
	kit.Unlock(t, h)
	holds := first.Hold(t)
	if !third.Waits() {
		t.Error("the third came first")
	}
	time.Sleep(15 * time.Second) // renewals
	w.WantCount("x", first.Owner, 1)
	kit.Unlock(t, holds)
	released := time.Now()
	h = third.Hold(t)
	if took := time.Since(released); took > 6*time.Second {
		t.Errorf("the third waited %v", took)
	}
	w.WantCount("x", third.Owner, 1)
	time.Sleep(time.Minute)
	w.WantCount("x", third.Owner, 1)
	kit.Unlock(t, h)
	time.Sleep(time.Minute)
	wantNoLine(w)
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
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					h := fairHolder(t, w, "x")
					c, d := w.Client()
					kit.Once(d, "acquire", fault)
					s := standAs(w, c, d, "x")
					time.Sleep(after)
					s.Cancel(nil)
					time.Sleep(5 * time.Second)
					wantNoLine(w)
					kit.Unlock(t, h)
				})
			})
		}
	}
}

// An acquire that was not answered, and comes after its hold was given back,
// keeps no place in line.
func TestLateAcquireKeepsNoPlaceAfterTheHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		mu := c.NewFairMutex("x")
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := kit.Must(t)(other.NewFairMutex("x").Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 1900 * time.Millisecond})
		_, err := mu.TryLock(ctx)
		kit.WantError(t, err, holdfast.ErrLocked) // the guess of the server's clock is now 950 ms ahead
		kit.Unlock(t, h)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2500 * time.Millisecond, LoseReply: true})
		kit.Unlock(t, kit.Must(t)(mu.Lock(ctx)))
		h = kit.Must(t)(other.NewFairMutex("x").Lock(background))
		time.Sleep(600 * time.Millisecond)
		w.WantReply("1", "LLEN", kit.QueueKey) // here it comes
		time.Sleep(2 * time.Second)
		wantNoLine(w)
		w.WantCount("x", h.Owner(), 1)
		kit.Unlock(t, h)
	})
}

// Redis answers nobody for a while, and then everybody, in whichever order: the
// line stands as it did. Others who are not in line do not get past it either.
func TestL8_SilenceOfTheServerCostsNobodyHisPlace(t *testing.T) {
	for _, silence := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 15 * time.Second, 50 * time.Second} {
		for _, reversed := range []bool{false, true} {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				h := fairHolder(t, w, "x", holdfast.FixedLease(10*time.Minute))
				line := []*kit.Standing{stand(w, "x"), stand(w, "x"), stand(w, "x"), stand(w, "x")}
				time.Sleep(2 * time.Second)
				for _, s := range line {
					kit.Silent(s.D, kit.LostRequest)
				}
				time.Sleep(silence)
				try, _ := w.Client()
				_, err := try.NewFairMutex("x").TryLock(background)
				kit.WantError(t, err, holdfast.ErrLocked)
				for i := range line {
					if reversed {
						i = len(line) - 1 - i
					}
					line[i].D.SetFaults(nil)
					time.Sleep(300 * time.Millisecond)
				}
				time.Sleep(3 * time.Second)
				wantLine(w, "x", line...)
				if t.Failed() {
					t.FailNow() // in another order, they would be waited for in vain
				}
				kit.Unlock(t, h)
				for _, s := range line {
					kit.Unlock(t, s.Hold(t))
				}
				wantNoLine(w)
			})
		}
	}
}

// As above, and the lock is given back as soon as Redis answers again, before any
// of the waiters is heard.
func TestL8_ReleaseAfterSilenceGoesToTheFirst(t *testing.T) {
	for _, silence := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second, 15 * time.Second, 50 * time.Second} {
		for _, reversed := range []bool{false, true} {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				h := fairHolder(t, w, "x", holdfast.FixedLease(10*time.Minute))
				line := []*kit.Standing{stand(w, "x"), stand(w, "x"), stand(w, "x"), stand(w, "x")}
				for _, s := range line {
					kit.Silent(s.D, kit.LostRequest)
				}
				time.Sleep(silence)
				kit.Unlock(t, h)
				for i := range line {
					if reversed {
						i = len(line) - 1 - i
					}
					line[i].D.SetFaults(nil)
					time.Sleep(300 * time.Millisecond)
				}
				for i, s := range line {
					h := s.Hold(t)
					for _, later := range line[i+1:] {
						if !later.Waits() {
							t.Errorf("after %v: one came before number %d", silence, i)
						}
					}
					kit.Unlock(t, h)
				}
				wantNoLine(w)
			})
		}
	}
}

// One who was cut off for long finds its place gone, and takes the last one; it
// does not get the lock twice, nor before the others.
func TestL8_WhoComesBackTakesTheLastPlace(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		first, second := stand(w, "x"), stand(w, "x")
		kit.Silent(first.D, kit.LostRequest)
		time.Sleep(20 * time.Second)
		wantLine(w, "x", second)
		first.D.SetFaults(nil)
		time.Sleep(3 * time.Second)
		wantLine(w, "x", second, first)
		kit.Unlock(t, h)
		h2 := second.Hold(t)
		if !first.Waits() {
			t.Error("it came before the other")
		}
		kit.Unlock(t, h2)
		kit.Unlock(t, first.Hold(t))
		wantNoLine(w)
	})
}

// L9: keys of the line are evicted, each by itself, or all together, or the server
// comes back empty: everybody who lives gets the lock, without waiting for long.
func TestL9_LostKeys(t *testing.T) {
	all := []string{"x", kit.QueueKey, kit.TimeoutsKey, kit.HeartbeatsKey, kit.AsksKey("x")}
	for set := range 1 << len(all) {
		var keys []string
		for i, key := range all {
			if set&(1<<i) != 0 {
				keys = append(keys, key)
			}
		}
		t.Run(strings.Join(keys, "+"), func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				h := fairHolder(t, w, "x")
				line := []*kit.Standing{stand(w, "x"), stand(w, "x"), stand(w, "x")}
				time.Sleep(7 * time.Second)
				for _, key := range keys {
					w.Do("DEL", key)
				}
				start := time.Now()
				if !slices.Contains(keys, "x") {
					time.Sleep(4 * time.Second)
					kit.Unlock(t, h)
				} else {
					_ = h.Unlock()
				}
				got := make(chan struct{}, len(line))
				for _, s := range line {
					go func() {
						kit.Unlock(t, s.Hold(t))
						got <- struct{}{}
					}()
				}
				for range line {
					<-got
				}
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("all had it after %v", took)
				}
				wantNoLine(w)
			})
		})
	}
}

// L9: one who stands in the sets but not in the line takes a place; one who
// stands in the line but in no set is dropped.
func TestL9_HalfAnEntry(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		first, second := stand(w, "x"), stand(w, "x")
		w.Do("LREM", kit.QueueKey, "0", first.Owner.String())
		w.Do("LPUSH", kit.QueueKey, "ffffffff-0000-4000-8000-000000000000:1")
		time.Sleep(4 * time.Second)
		wantLine(w, "x", second, first)
		w.Do("ZREM", kit.TimeoutsKey, second.Owner.String())
		w.Do("ZREM", kit.HeartbeatsKey, first.Owner.String())
		time.Sleep(4 * time.Second)
		wantLine(w, "x", second, first)
		kit.Unlock(t, h)
		kit.Unlock(t, second.Hold(t))
		kit.Unlock(t, first.Hold(t))
		wantNoLine(w)
	})
}

// P7: what a try does is no more with a long line than with a short one.
func TestP7_LongLines(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		for i := range 3000 { // Java's, which live long
			owner := fmt.Sprintf("ffffffff-0000-4000-8000-000000000000:%d", i)
			w.Do("RPUSH", kit.QueueKey, owner)
			w.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(time.Now().Add(24*time.Hour).UnixMilli()), owner)
		}
		s := stand(w, "x")
		w.WantReply("3001", "LLEN", kit.QueueKey)
		time.Sleep(time.Minute)
		w.WantReply("3001", "LLEN", kit.QueueKey) // no second place, though it is too far back to be looked for
		s.Cancel(nil)
		synctest.Wait()
		w.WantReply("3000", "LLEN", kit.QueueKey)
		w.WantReply("3000", "ZCARD", kit.TimeoutsKey)
		w.Do("DEL", kit.QueueKey)
		kit.Unlock(t, h)
		c, _ := w.Client()
		kit.Unlock(t, kit.Must(t)(c.NewFairMutex("x").Lock(background)))
		wantNoLine(w)
	})
}

// A3, L11: the lock ran out, or was deleted. Its holder's Unlock is an error, and
// whoever is next is told all the same.
func TestA3_UnlockOfALockThatIsGone(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		s := stand(w, "x")
		time.Sleep(time.Second)
		w.Do("DEL", "x")
		start := time.Now()
		kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		kit.Unlock(t, s.Hold(t))
		if took := time.Since(start); took > 0 {
			t.Errorf("it was told after %v", took)
		}
		h = fairHolder(t, w, "x", holdfast.FixedLease(10500*time.Millisecond))
		s = stand(w, "x")
		start = time.Now()
		kit.Unlock(t, s.Hold(t))
		if took := time.Since(start); took > 10510*time.Millisecond {
			t.Errorf("waited %v for a lock that lived 10.5s", took)
		}
		_ = h.Unlock()
		wantNoLine(w)
	})
}

// A dead client's hold ends, with a dead waiter at the head: the next one gets it
// by itself, with nobody to tell it.
func TestFairHolderAndNextAreDead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		h := kit.Must(t)(c.NewFairMutex("x").Lock(background))
		dead := stand(w, "x")
		line := []*kit.Standing{stand(w, "x"), stand(w, "x")}
		kit.Silent(d, kit.LostRequest)
		kit.Silent(dead.D, kit.LostRequest)
		start := time.Now()
		first := line[0].Hold(t)
		if took := time.Since(start); took > 30*time.Second+10*time.Millisecond {
			t.Errorf("got it after %v, the lease is 30s", took)
		}
		kit.Unlock(t, first)
		kit.Unlock(t, line[1].Hold(t))
		dead.Cancel(nil)
		_ = h.Unlock()
		time.Sleep(time.Minute)
		wantNoLine(w)
	})
}

// The server's clock jumps, as it may at a failover: nobody who lives is dropped,
// and the dead do not stay.
func TestS24_ServerClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Minute, -time.Minute, -time.Hour} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			dead := stand(w, "x")
			line := []*kit.Standing{stand(w, "x"), stand(w, "x"), stand(w, "x")}
			kit.Silent(dead.D, kit.LostRequest)
			dead.D.LoseMessages(true)
			time.Sleep(5 * time.Second)
			// As if the clock had jumped since it was last looked at.
			ms := fmt.Sprint(-jump.Milliseconds())
			for _, key := range []string{kit.HeartbeatsKey, kit.TimeoutsKey} {
				for member := range strings.FieldsSeq(w.Do("ZRANGE", key, "0", "-1")) {
					w.Do("ZINCRBY", key, ms, member)
				}
			}
			time.Sleep(10 * time.Second)
			wantLine(w, "x", line...)
			kit.Unlock(t, h)
			for _, s := range line {
				kit.Unlock(t, s.Hold(t))
			}
			dead.Cancel(nil)
			wantNoLine(w)
		})
	}
}

// A nested Lock takes no place, and takes one away that was left behind.
func TestFairNestedTakesNoPlace(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		mu := c.NewFairMutex("x")
		h := kit.Must(t)(mu.Lock(background))
		s := stand(w, "x")
		w.Do("LPUSH", kit.QueueKey, h.Owner().String())
		w.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()), h.Owner().String())
		nested := kit.Must(t)(mu.Lock(h.Context()))
		w.WantCount("x", h.Owner(), 2)
		wantLine(w, "x", s)
		kit.Unlock(t, nested)
		kit.Unlock(t, h)
		kit.Unlock(t, s.Hold(t))
		wantNoLine(w)
	})
}

// What a waiter was granted that has given up is given back though no answer comes: that it leaves the line,
// too, holds up nothing.
func TestGivenBackThoughNoAnswerComes(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		held := kit.Must(t)(other.NewFairMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		ended := make(chan error, 1)
		go func() {
			_, err := c.NewFairMutex("x").Lock(ctx)
			ended <- err
		}()
		time.Sleep(time.Second)
		kit.Silent(d, memdriver.Fault{LoseReply: true})
		d.LoseMessages(true)
		kit.Unlock(t, held) // to the waiter, which does not hear of it, and asks
		time.Sleep(1500 * time.Millisecond)
		w.WantReply("1", "HLEN", "x")
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock: %v", err)
		}
		time.Sleep(3 * time.Second)
		w.WantReply("0", "EXISTS", "x")
	})
}

// The next in line may be cut off for 1.9 s, from whichever moment on: a request of its that is lost is sent again after two, and
// two seconds and the 1.5 s between two requests are less than what its place lives for.
func TestShortCutCostsNoPlace(t *testing.T) {
	for from := time.Duration(0); from < 1500*time.Millisecond; from += 100 * time.Millisecond {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x", holdfast.FixedLease(10*time.Minute))
			first, second := stand(w, "x"), stand(w, "x")
			time.Sleep(2*time.Second + from)
			kit.Silent(first.D, kit.LostRequest)
			first.D.LoseMessages(true)
			time.Sleep(1900 * time.Millisecond)
			kit.Unlock(t, h)
			first.D.SetFaults(nil)
			first.D.LoseMessages(false)
			wantLine(w, "x", second) // and the first was granted it, and asks
			order := make(chan *kit.Standing)
			for _, s := range []*kit.Standing{first, second} {
				go func() {
					h := s.Hold(t)
					order <- s
					kit.Unlock(t, h)
				}()
			}
			if <-order != first {
				t.Errorf("cut off %v after it had begun to wait: it was overtaken", 2*time.Second+from)
			}
			<-order
			synctest.Wait()
			wantNoLine(w)
		})
	}
}

// An acquire that was not answered, and comes after its hold was given back, keeps no place in line, though a later
// acquire of the same owner was not answered at once either.
func TestLateAcquireKeepsNoPlaceAfterNestedHolds(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		mu := c.NewFairMutex("x")
		ctx := holdfast.WithOwner(background, c.NewOwner())
		h := kit.Must(t)(other.NewFairMutex("x").Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 1900 * time.Millisecond})
		_, err := mu.TryLock(ctx)
		kit.WantError(t, err, holdfast.ErrLocked) // the guess of the server's clock is now 950 ms ahead
		kit.Unlock(t, h)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2500 * time.Millisecond, LoseReply: true})
		outer := kit.Must(t)(mu.Lock(ctx))
		kit.Once(d, "acquire", memdriver.Fault{Refuse: &driver.Error{MayHaveRun: true, Transient: true, Err: errors.New("connection reset")}})
		inner := kit.Must(t)(mu.Lock(ctx))
		kit.Unlock(t, inner)
		kit.Unlock(t, outer)
		h = kit.Must(t)(other.NewFairMutex("x").Lock(background))
		time.Sleep(10 * time.Second)
		wantNoLine(w)
		kit.Unlock(t, h)
	})
}
