package fair

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// L7: while it is somebody else's turn who does not come, nobody asks on and on.
func TestL7_NoBusyLoop(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		in := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
		w.Do("RPUSH", "redisson_lock_queue:{x}", "java:1")
		w.Do("ZADD", "redisson_lock_timeout:{x}", in, "java:1")
		asked := kit.Count(d)
		start := time.Now()
		h := kit.Must(t)(c.NewFairMutex("x").Lock(background))
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it got it after %v", took)
		}
		if n := asked.Of("acquire"); n > 45 {
			t.Errorf("it asked %d times", n)
		}
		kit.Unlock(t, h)
	})
}

// L8: a waiter that lives keeps its place, however long it waits, and through an
// outage in which nobody could be heard.
func TestL8_LiveWaitersAreNotDropped(t *testing.T) {
	const long = 6 * time.Minute // longer than Redisson gives a waiter
	for name, outage := range map[string]time.Duration{"a long wait": 0, "an outage": 18 * time.Second} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				holder, _ := w.Client()
				h := kit.Must(t)(holder.NewFairMutex("x").Lock(background))
				order := make(chan int, 5)
				var all sync.WaitGroup
				for i := range 5 {
					c, d := w.Client()
					if outage > 0 {
						time.AfterFunc(long-outage-time.Duration(i)*time.Second, func() { kit.Away(d) })
						time.AfterFunc(long+time.Duration(5-i)*300*time.Millisecond, func() { d.SetFaults(nil) })
					}
					all.Go(func() {
						h, err := c.NewFairMutex("x").Lock(background)
						order <- i
						if err == nil {
							err = h.Unlock()
						}
						if err != nil {
							t.Error(err)
						}
					})
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(long + 10*time.Second)
				kit.Unlock(t, h)
				var got []int
				for range 5 {
					got = append(got, <-order)
				}
				all.Wait() // or the client is closed before the last Unlock
				if !slices.IsSorted(got) {
					t.Errorf("they came in the order %v", got)
				}
			})
		})
	}
}

// L9: the line and its times do not agree, because one of the keys was lost.
func TestL9_DivergentKeys(t *testing.T) {
	for name, damage := range map[string][][]string{
		"no times":            {{"DEL", "redisson_lock_timeout:{x}"}, {"DEL", "holdfast_lock_waiting:{x}"}},
		"no line":             {{"DEL", "redisson_lock_queue:{x}"}},
		"a head without time": {{"LPUSH", "redisson_lock_queue:{x}", "java:1"}},
		"a time without line": {{"ZADD", "redisson_lock_timeout:{x}", "99999999999999", "java:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				h := kit.Must(t)(c.NewFairMutex("x").Lock(background))
				got := make(chan *holdfast.Hold, 1)
				go func() { got <- kit.Must(t)(c.NewFairMutex("x").Lock(background)) }()
				time.Sleep(time.Second)
				for _, args := range damage {
					w.Do(args...)
				}
				time.Sleep(4 * time.Second)
				start := time.Now()
				kit.Unlock(t, h)
				next := <-got
				if took := time.Since(start); took > 4*time.Second {
					t.Errorf("the waiter got it after %v", took)
				}
				kit.Unlock(t, next)
			})
		})
	}
}

// What a dead client leaves is gone after two minutes.
func TestL9_DeadClientsLeaveNothing(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		h := kit.Must(t)(a.NewFairMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		gone := make(chan error, 1)
		go func() {
			_, err := b.NewFairMutex("x").Lock(ctx)
			gone <- err
		}()
		time.Sleep(time.Second)
		kit.Away(d)
		cancel()
		kit.WantError(t, <-gone, context.Canceled)
		kit.Unlock(t, h)
		time.Sleep(2*time.Minute + time.Second)
		w.WantReply("", "KEYS", "*")
		d.SetFaults(nil)
	})
}

// S24: whose clock is wrong does not matter: times are the server's.
// The clock of a client is nowhere in its calls; skewed drivers are in the stress
// test of the mutex. Here: no argument of any call is a time but the limit.
func TestS24_NoClientTimes(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, d := w.Client()
		h := kit.Must(t)(c.NewFairMutex("x").Lock(background))
		now := fmt.Sprint(time.Now().UnixMilli())[:6]
		seen := kit.Spy(d)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := other.NewFairMutex("x").Lock(ctx)
		kit.WantError(t, err, context.DeadlineExceeded)
		kit.Unlock(t, h)
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
