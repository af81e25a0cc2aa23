package test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// What dead waiters of a fair lock cost those who live, and what they leave.

// standDead puts so many in line who asked ten seconds ago, and never again.
func (w *world) standDead(n int) {
	w.t.Helper()
	now := time.Now()
	for i := range n {
		owner := fmt.Sprintf("ffffffff-0000-8000-8000-000000000000:%d", i)
		w.do("RPUSH", queueKey, owner)
		w.do("ZADD", timeoutsKey, fmt.Sprint(now.Add(20*time.Second).UnixMilli()), owner)
		w.do("ZADD", heartbeatsKey, fmt.Sprint(now.UnixMilli()), owner)
	}
}

// L9: what the dead leave goes by itself, and at once if one who lives was the last.
func TestL9_TheDeadLeaveNothing(t *testing.T) {
	for _, tried := range []bool{false, true} {
		fake(t, func(t *testing.T, w *world) {
			h := fairHolder(t, w, "x")
			for range 3 {
				s := w.stand("x")
				silent(s.d, lostRequest)
				defer s.cancel(nil)
			}
			time.Sleep(15 * time.Second)
			unlock(t, h)
			if tried {
				c, _ := w.client()
				unlock(t, must(t)(c.NewFairMutex("x").TryLock(background)))
			}
			time.Sleep(2*time.Minute - 15*time.Second)
			w.wantNoLine() // nobody has asked
		})
	}
	for _, leaves := range []bool{false, true} {
		fake(t, func(t *testing.T, w *world) {
			h := fairHolder(t, w, "x")
			s := w.stand("x")
			w.standDead(300)
			time.Sleep(15 * time.Second)
			if leaves {
				s.cancel(nil)
				synctest.Wait()
			} else {
				unlock(t, h)
				h = s.hold(t)
			}
			w.wantNoLine()
			unlock(t, h)
		})
	}
}

// A lock is had past one who is not heard of any more, however often somebody asks, and however long each of
// them waits: when the grant ends, or, if it was not granted the lock, when it has not been heard of for four and a half
// seconds.
func TestDeadWaiterKeepsNobodyOutForLong(t *testing.T) {
	for name, ask := range map[string]func(mu *holdfast.Mutex) (*holdfast.Hold, error){
		"TryLock": func(mu *holdfast.Mutex) (*holdfast.Hold, error) { return mu.TryLock(background) },
		"Lock": func(mu *holdfast.Mutex) (*holdfast.Hold, error) {
			return mu.Lock(background, holdfast.Wait(100*time.Millisecond))
		},
	} {
		for i, every := range []time.Duration{time.Second / 2, 5 * time.Second, 10 * time.Second, time.Minute} {
			granted := i%2 == 0
			t.Run(fmt.Sprint(name, "/", every), func(t *testing.T) {
				fake(t, func(t *testing.T, w *world) {
					h := fairHolder(t, w, "x")
					dead := w.stand("x")
					defer dead.cancel(nil)
					silent(dead.d, lostRequest)
					dead.d.LoseMessages(true)
					keepsNobodyOutFor := 4400 * time.Millisecond
					if granted {
						unlock(t, h)
						keepsNobodyOutFor = grantLasts
					} else {
						w.do("DEL", "x") // a release would grant it all the same
					}
					heard := time.Now()
					c, _ := w.client()
					h, err := ask(c.NewFairMutex("x"))
					for ; err != nil; h, err = ask(c.NewFairMutex("x")) {
						wantError(t, err, holdfast.ErrLocked)
						time.Sleep(every)
					}
					if took := time.Since(heard); took < keepsNobodyOutFor || took > keepsNobodyOutFor+400*time.Millisecond+every {
						t.Errorf("had after %v", took)
					}
					unlock(t, h)
					time.Sleep(2 * time.Minute)
					w.wantNoLine()
				})
			})
		}
	}
}

// One that was passed because nobody had heard of it keeps its place if it lives.
func TestL8_WhoIsPassedKeepsItsPlace(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		fairHolder(t, w, "x")
		first := w.stand("x")
		silent(first.d, lostRequest)
		first.d.LoseMessages(true)
		w.do("DEL", "x") // a release would grant it to the first
		time.Sleep(15 * time.Second)
		c, _ := w.client()
		h := must(t)(c.NewFairMutex("x").TryLock(background))
		second := w.stand("x")
		first.d.SetFaults(nil)
		first.d.LoseMessages(false)
		time.Sleep(4 * time.Second)
		w.wantLine("x", first, second)
		unlock(t, h)
		h = first.hold(t)
		if !second.waits() {
			t.Error("it was overtaken")
		}
		unlock(t, h)
		unlock(t, second.hold(t))
		w.wantNoLine()
	})
}

// A dead one that stood behind others for long is nobody's obstacle when it comes to
// stand first.
func TestL6_LongDeadInTheMiddle(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		first, dead, last := w.stand("x"), w.stand("x"), w.stand("x")
		silent(dead.d, lostRequest)
		time.Sleep(time.Minute)
		start := time.Now()
		unlock(t, h)
		unlock(t, first.hold(t))
		unlock(t, last.hold(t))
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("the last got it after %v", took)
		}
		dead.cancel(nil)
		time.Sleep(time.Minute)
		w.wantNoLine()
	})
}

// Requests of the only one who waits are lost again and again: the dead ahead of it go.
func TestL6_WhoAsksRarelyGetsPastTheDead(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		dead, s := w.stand("x"), w.stand("x")
		silent(dead.d, lostRequest)
		dead.d.LoseMessages(true)
		var n atomic.Int32
		s.d.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "acquire" && n.Add(1)%4 != 0}
		})
		unlock(t, h)
		start := time.Now()
		h = s.hold(t)
		if took := time.Since(start); took > 2*time.Minute+15*time.Second {
			t.Errorf("it got it after %v", took)
		}
		dead.cancel(nil)
		s.d.SetFaults(nil)
		unlock(t, h)
		w.wantNoLine()
	})
}

// P7: thousands who are dead stand before two who live. No call drops many of
// them, and the two get through without waiting for their next turn to ask.
func TestP7_ManyDead(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := fairHolder(t, w, "x")
		w.standDead(3000)
		var mu sync.Mutex
		stood := 3000
		look := func(driver.Call) memdriver.Fault { // before each call
			mu.Lock()
			defer mu.Unlock()
			length, err := strconv.Atoi(w.do("LLEN", queueKey))
			if err != nil {
				t.Error(err)
			}
			if stood-length > 3*200 { // two may ask at once, and one release
				t.Errorf("%d stood there, and now %d", stood, length)
			}
			stood = length
			return memdriver.Fault{}
		}
		var line []*standing
		for range 2 {
			c, d := w.client()
			d.SetFaults(look)
			line = append(line, w.standAs(c, d, "x"))
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		unlock(t, h)
		for _, s := range line {
			unlock(t, s.hold(t))
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("both had it after %v", took)
		}
		w.wantNoLine()
	})
}
