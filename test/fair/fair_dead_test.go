package fair

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
	"github.com/holdfast-go/holdfast/test/kit"
)

// What dead waiters of a fair lock cost those who live, and what they leave.

// standDead puts so many in line who asked ten seconds ago, and never again.
func standDead(w *kit.World, n int) {
	w.T.Helper()
	now := time.Now()
	for i := range n {
		owner := fmt.Sprintf("ffffffff-0000-8000-8000-000000000000:%d", i)
		w.Do("RPUSH", kit.QueueKey, owner)
		w.Do("ZADD", kit.TimeoutsKey, fmt.Sprint(now.Add(20*time.Second).UnixMilli()), owner)
		w.Do("ZADD", kit.HeartbeatsKey, fmt.Sprint(now.UnixMilli()), owner)
	}
}

// L9: what the dead leave goes by itself, and at once if one who lives was the last.
func TestL9_TheDeadLeaveNothing(t *testing.T) {
	for _, tried := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			for range 3 {
				s := stand(w, "x")
				kit.Silent(s.D, kit.LostRequest)
				defer s.Cancel(nil)
			}
			time.Sleep(15 * time.Second)
			kit.Unlock(t, h)
			if tried {
				c, _ := w.Client()
				kit.Unlock(t, kit.Must(t)(c.NewFairMutex("x").TryLock(background)))
			}
			time.Sleep(2*time.Minute - 15*time.Second)
			wantNoLine(w) // nobody has asked
		})
	}
	for _, leaves := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := fairHolder(t, w, "x")
			s := stand(w, "x")
			standDead(w, 300)
			time.Sleep(15 * time.Second)
			if leaves {
				s.Cancel(nil)
				synctest.Wait()
			} else {
				kit.Unlock(t, h)
				h = s.Hold(t)
			}
			wantNoLine(w)
			kit.Unlock(t, h)
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
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					h := fairHolder(t, w, "x")
					dead := stand(w, "x")
					defer dead.Cancel(nil)
					kit.Silent(dead.D, kit.LostRequest)
					dead.D.LoseMessages(true)
					keepsNobodyOutFor := 4400 * time.Millisecond
					if granted {
						kit.Unlock(t, h)
						keepsNobodyOutFor = kit.GrantLasts
					} else {
						w.Do("DEL", "x") // a release would grant it all the same
					}
					heard := time.Now()
					c, _ := w.Client()
					h, err := ask(c.NewFairMutex("x"))
					for ; err != nil; h, err = ask(c.NewFairMutex("x")) {
						kit.WantError(t, err, holdfast.ErrLocked)
						time.Sleep(every)
					}
					if took := time.Since(heard); took < keepsNobodyOutFor || took > keepsNobodyOutFor+400*time.Millisecond+every {
						t.Errorf("had after %v", took)
					}
					kit.Unlock(t, h)
					time.Sleep(2 * time.Minute)
					wantNoLine(w)
				})
			})
		}
	}
}

// One that was passed because nobody had heard of it keeps its place if it lives.
func TestL8_WhoIsPassedKeepsItsPlace(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		fairHolder(t, w, "x")
		first := stand(w, "x")
		kit.Silent(first.D, kit.LostRequest)
		first.D.LoseMessages(true)
		w.Do("DEL", "x") // a release would grant it to the first
		time.Sleep(15 * time.Second)
		c, _ := w.Client()
		h := kit.Must(t)(c.NewFairMutex("x").TryLock(background))
		second := stand(w, "x")
		first.D.SetFaults(nil)
		first.D.LoseMessages(false)
		time.Sleep(4 * time.Second)
		wantLine(w, "x", first, second)
		kit.Unlock(t, h)
		h = first.Hold(t)
		if !second.Waits() {
			t.Error("it was overtaken")
		}
		kit.Unlock(t, h)
		kit.Unlock(t, second.Hold(t))
		wantNoLine(w)
	})
}

// A dead one that stood behind others for long is nobody's obstacle when it comes to
// stand first.
func TestL6_LongDeadInTheMiddle(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		first, dead, last := stand(w, "x"), stand(w, "x"), stand(w, "x")
		kit.Silent(dead.D, kit.LostRequest)
		time.Sleep(time.Minute)
		start := time.Now()
		kit.Unlock(t, h)
		kit.Unlock(t, first.Hold(t))
		kit.Unlock(t, last.Hold(t))
		if took := time.Since(start); took > 10*time.Millisecond {
			t.Errorf("the last got it after %v", took)
		}
		dead.Cancel(nil)
		time.Sleep(time.Minute)
		wantNoLine(w)
	})
}

// Requests of the only one who waits are lost again and again: the dead ahead of it go.
func TestL6_WhoAsksRarelyGetsPastTheDead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		dead, s := stand(w, "x"), stand(w, "x")
		kit.Silent(dead.D, kit.LostRequest)
		dead.D.LoseMessages(true)
		var n atomic.Int32
		s.D.SetFaults(func(call driver.Call) memdriver.Fault {
			return memdriver.Fault{LoseRequest: call.Script.Name() == "acquire" && n.Add(1)%4 != 0}
		})
		kit.Unlock(t, h)
		start := time.Now()
		h = s.Hold(t)
		if took := time.Since(start); took > 2*time.Minute+15*time.Second {
			t.Errorf("it got it after %v", took)
		}
		dead.Cancel(nil)
		s.D.SetFaults(nil)
		kit.Unlock(t, h)
		wantNoLine(w)
	})
}

// P7: thousands who are dead stand before two who live. No call drops many of
// them, and the two get through without waiting for their next turn to ask.
func TestP7_ManyDead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := fairHolder(t, w, "x")
		standDead(w, 3000)
		var mu sync.Mutex
		stood := 3000
		look := func(driver.Call) memdriver.Fault { // before each call
			mu.Lock()
			defer mu.Unlock()
			length, err := strconv.Atoi(w.Do("LLEN", kit.QueueKey))
			if err != nil {
				t.Error(err)
			}
			if stood-length > 3*200 { // two may ask at once, and one release
				t.Errorf("%d stood there, and now %d", stood, length)
			}
			stood = length
			return memdriver.Fault{}
		}
		var line []*kit.Standing
		for range 2 {
			c, d := w.Client()
			d.SetFaults(look)
			line = append(line, standAs(w, c, d, "x"))
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		kit.Unlock(t, h)
		for _, s := range line {
			kit.Unlock(t, s.Hold(t))
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("both had it after %v", took)
		}
		wantNoLine(w)
	})
}
