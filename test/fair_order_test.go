package test

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
)

// The fair lock, on every driver, in real time.
func TestFairMutex(t *testing.T) {
	onEveryDriver(t, map[string]func(*testing.T, *platform){
		"InOrder":             inOrder,
		"A14_TryDoesNotQueue": tryDoesNotQueue,
		"L5_LeavingHeadTells": leavingHeadTells,
		"A3_GoneIsAnError":    fairGoneIsAnError,
		"ManyInOneProcess":    manyInOneProcess,
	})
}

// waits makes somebody wait in line, and returns when Redis knows.
func (p *platform) waits(t *testing.T, ctx context.Context, mu *holdfast.Mutex, got func(*holdfast.Hold, error)) {
	t.Helper()
	before := p.do(t, mu.Name(), "LLEN", "redisson_lock_queue:{"+mu.Name()+"}")
	go func() { got(mu.Lock(ctx)) }()
	waitFor(t, "a place in line", func() bool {
		return !slices.Equal(before, p.do(t, mu.Name(), "LLEN", "redisson_lock_queue:{"+mu.Name()+"}"))
	})
}

func inOrder(t *testing.T, p *platform) {
	name := fresh()
	h := must(t)(p.client(t).NewFairMutex(name).Lock(background))
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	clients := []*holdfast.Client{p.client(t), p.client(t), p.client(t)}
	for i := range 9 {
		wg.Add(1)
		p.waits(t, background, clients[i%3].NewFairMutex(name), func(h *holdfast.Hold, err error) {
			defer wg.Done()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			unlock(t, h)
		})
	}
	found, err := clients[0].NewFairMutex(name).Inspect(background)
	if err != nil || len(found.Waiters) != 9 || len(found.Holders) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	unlock(t, h)
	wg.Wait()
	if !slices.IsSorted(order) || len(order) != 9 {
		t.Errorf("they came in the order %v", order)
	}
	nothingLeft(t, p, name)
}

// A14: one try leaves no trace, and does not overtake.
func tryDoesNotQueue(t *testing.T, p *platform) {
	name := fresh()
	c := p.client(t)
	h := must(t)(c.NewFairMutex(name).Lock(background))
	_, err := c.NewFairMutex(name).TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	if n := p.do(t, name, "EXISTS", "redisson_lock_queue:{"+name+"}"); n[0] != "0" {
		t.Error("TryLock stands in line")
	}
	// Somebody waits who is not from here, and the lock is free.
	in := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	p.do(t, name, "RPUSH", "redisson_lock_queue:{"+name+"}", "java:1")
	p.do(t, name, "ZADD", "redisson_lock_timeout:{"+name+"}", in, "java:1")
	unlock(t, h)
	_, err = c.NewFairMutex(name).TryLock(background)
	wantError(t, err, holdfast.ErrLocked)
	if !strings.HasSuffix(err.Error(), "held by another owner") {
		t.Errorf("nobody holds it: %v", err)
	}
}

// L5: the next one is told when the first in line gives up while the lock is
// free. Here the first is one who does not listen: a dead one of another process
// that somebody takes out of the line.
func leavingHeadTells(t *testing.T, p *platform) {
	name := fresh()
	c := p.client(t)
	h := must(t)(c.NewFairMutex(name).Lock(background))
	ctx, cancel := context.WithCancel(background)
	first, second := make(chan error, 1), make(chan *holdfast.Hold, 1)
	p.waits(t, ctx, c.NewFairMutex(name), func(_ *holdfast.Hold, err error) { first <- err })
	p.waits(t, background, p.client(t).NewFairMutex(name), func(h *holdfast.Hold, _ error) { second <- h })
	cancel()
	wantError(t, <-first, context.Canceled)
	waitFor(t, "the first to be out of the line", func() bool {
		return p.do(t, name, "LLEN", "redisson_lock_queue:{"+name+"}")[0] == "1"
	})
	unlock(t, h)
	unlock(t, <-second)
	nothingLeft(t, p, name)
}

// A3: unlocking a lock that is gone is an error, here as for every kind.
func fairGoneIsAnError(t *testing.T, p *platform) {
	name := fresh()
	h := must(t)(p.client(t).NewFairMutex(name).Lock(background))
	p.do(t, name, "DEL", name)
	wantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

func manyInOneProcess(t *testing.T, p *platform) {
	name := fresh()
	c := p.client(t)
	var wg sync.WaitGroup
	var in sync.Mutex
	for range 50 {
		wg.Go(func() {
			h, err := c.NewFairMutex(name).Lock(background)
			if err != nil {
				t.Error(err)
				return
			}
			if !in.TryLock() {
				t.Error("two at once")
			} else {
				in.Unlock()
			}
			unlock(t, h)
		})
	}
	wg.Wait()
	nothingLeft(t, p, name)
}

// L7: while it is somebody else's turn who does not come, nobody asks on and on.
func TestL7_NoBusyLoop(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		in := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
		w.do("RPUSH", "redisson_lock_queue:{x}", "java:1")
		w.do("ZADD", "redisson_lock_timeout:{x}", in, "java:1")
		asked := count(d)
		start := time.Now()
		h := must(t)(c.NewFairMutex("x").Lock(background))
		if took := time.Since(start); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it got it after %v", took)
		}
		if n := asked.of("acquire"); n > 45 {
			t.Errorf("it asked %d times", n)
		}
		unlock(t, h)
	})
}

// L8: a waiter that lives keeps its place, however long it waits, and through an
// outage in which nobody could be heard.
func TestL8_LiveWaitersAreNotDropped(t *testing.T) {
	const long = 6 * time.Minute // longer than Redisson gives a waiter
	for name, outage := range map[string]time.Duration{"a long wait": 0, "an outage": 18 * time.Second} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				holder, _ := w.client()
				h := must(t)(holder.NewFairMutex("x").Lock(background))
				order := make(chan int, 5)
				var all sync.WaitGroup
				for i := range 5 {
					c, d := w.client()
					if outage > 0 {
						time.AfterFunc(long-outage-time.Duration(i)*time.Second, func() { away(d) })
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
				unlock(t, h)
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
			fake(t, func(t *testing.T, w *world) {
				c, _ := w.client()
				h := must(t)(c.NewFairMutex("x").Lock(background))
				got := make(chan *holdfast.Hold, 1)
				go func() { got <- must(t)(c.NewFairMutex("x").Lock(background)) }()
				time.Sleep(time.Second)
				for _, args := range damage {
					w.do(args...)
				}
				time.Sleep(4 * time.Second)
				start := time.Now()
				unlock(t, h)
				next := <-got
				if took := time.Since(start); took > 4*time.Second {
					t.Errorf("the waiter got it after %v", took)
				}
				unlock(t, next)
			})
		})
	}
}

// What a dead client leaves is gone after two minutes.
func TestL9_DeadClientsLeaveNothing(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		a, _ := w.client()
		b, d := w.client()
		h := must(t)(a.NewFairMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		gone := make(chan error, 1)
		go func() {
			_, err := b.NewFairMutex("x").Lock(ctx)
			gone <- err
		}()
		time.Sleep(time.Second)
		away(d)
		cancel()
		wantError(t, <-gone, context.Canceled)
		unlock(t, h)
		time.Sleep(2*time.Minute + time.Second)
		w.wantReply("", "KEYS", "*")
		d.SetFaults(nil)
	})
}

// S24: whose clock is wrong does not matter: times are the server's.
// The clock of a client is nowhere in its calls; skewed drivers are in the stress
// test of the mutex. Here: no argument of any call is a time but the limit.
func TestS24_NoClientTimes(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, _ := w.client()
		other, d := w.client()
		h := must(t)(c.NewFairMutex("x").Lock(background))
		now := fmt.Sprint(time.Now().UnixMilli())[:6]
		seen := spy(d)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := other.NewFairMutex("x").Lock(ctx)
		wantError(t, err, context.DeadlineExceeded)
		unlock(t, h)
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
