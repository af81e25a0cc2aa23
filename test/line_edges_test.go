package test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// A hold that begins with a message may last for MaxHold, as any other.
func TestLineEdgeMaxHold(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		const most = 2 * time.Second
		h := w.lineHolder()
		s := w.lineOf(holdfast.WithMaxHold(most))
		time.Sleep(900 * time.Millisecond)
		unlock(t, h)
		n := s.hold(t)
		began := time.Now()
		<-n.Context().Done()
		if lasted := time.Since(began); lasted < most-100*time.Millisecond {
			t.Errorf("the hold lasted for %v, and MaxHold is %v", lasted, most)
		}
		_ = n.Unlock()
	})
}

// The server's clock goes back while the lock is left to those who do not stand in line.
func TestLineEdgeClockGoesBack(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		first := w.line()
		other := w.server.Driver().Listen(func(driver.Event) {}) // one of Redisson's
		other.Subscribe("redisson_lock__channel:{x}")
		synctest.Wait()
		unlock(t, h) // to the others, who do not take it
		w.server.SetClock(-time.Minute)
		start := time.Now()
		n := first.hold(t)
		if took := time.Since(start); took > 4500*time.Millisecond {
			t.Errorf("it waited for %v beside a free lock", took)
		}
		other.Close()
		unlock(t, n)
		w.server.SetClock(0)
	})
}

// The same for those who do not stand in line: the next turn of theirs is a minute off.
func TestLineEdgeClockGoesBackOthers(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		var opened atomic.Int64
		other := w.server.Driver().Listen(func(e driver.Event) {
			if e.Kind == driver.Message {
				opened.Add(1)
			}
		})
		other.Subscribe("redisson_lock__channel:{x}")
		synctest.Wait()
		ctx, end := context.WithCancel(background)
		holds := w.inTurns(ctx, 3, 20*time.Millisecond, func(c *holdfast.Client) holdfast.Locker { return w.lock(c) })
		time.Sleep(10 * time.Millisecond)
		unlock(t, h)
		time.Sleep(10 * time.Second)
		before := opened.Swap(0)
		w.server.SetClock(-time.Minute)
		time.Sleep(10 * time.Second)
		if n := opened.Load(); n < before/2 {
			t.Errorf("the lock was left to others %d times in 10 s, and %d times before", n, before)
		}
		end()
		holds()
		other.Close()
		w.server.SetClock(0)
	})
}

// Those far behind have come to the head of the line since they have asked, and one of them dies with the lock.
func TestLineEdgeFarPlaces(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		var near []*standing
		for range 8 {
			near = append(near, w.line())
		}
		dies, last := w.line(), w.line()
		unlock(t, h)
		for _, s := range near[:7] {
			unlock(t, s.hold(t))
		}
		eighth := near[7].hold(t)
		away(dies.d)
		dies.d.LoseMessages(true)
		unlock(t, eighth)
		start := time.Now()
		n := last.hold(t)
		if took := time.Since(start); took > 3*time.Second+1500*time.Millisecond {
			t.Errorf("the last one waited for %v", took)
		}
		unlock(t, n)
	})
}

// The same, and the one that dies has begun its hold: the others know nothing of its lease.
func TestLineEdgeHolderDies(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		var near []*standing
		for range 8 {
			near = append(near, w.line())
		}
		ninth, last := w.lineOf(holdfast.WithLease(4*time.Second)), w.line()
		unlock(t, h)
		for _, s := range near {
			unlock(t, s.hold(t))
		}
		n := ninth.hold(t)
		away(ninth.d)
		time.Sleep(w.pttl("x"))
		start := time.Now() // it may be had from now on
		unlock(t, last.hold(t))
		if took := time.Since(start); took > 4500*time.Millisecond {
			t.Errorf("the last one waited for %v beside a free lock", took)
		}
		_ = n.Unlock()
	})
}

// 40 who are deaf, all believed in.
func TestLineEdgeManyDeaf(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		for range 40 {
			s := w.line()
			defer s.d.LoseMessages(false)
			s.d.LoseMessages(true)
			away(s.d)
		}
		last := w.line()
		unlock(t, h)
		start := time.Now()
		n := last.hold(t)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it waited for %v behind the dead", took)
		}
		unlock(t, n)
	})
}

// A Lock that fails at once leaves nothing in memory.
func TestLineEdgeFailedLockIsForgotten(t *testing.T) {
	server, err := memdriver.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d := server.Driver()
	c, err := holdfast.New(d, holdfast.WithTimeout(60*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { d.SetFaults(nil); c.Close() }()
	d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{Refuse: errors.New("connection refused")} })
	type key struct{}
	var gone atomic.Int64
	const calls = 50
	for range calls {
		value := new([64]int)
		runtime.AddCleanup(value, func(int) { gone.Add(1) }, 0)
		_, err := c.NewMutex("x").Lock(context.WithValue(background, key{}, value))
		if err == nil {
			t.Fatal("granted")
		}
	}
	waitFor(t, "calls that have failed to be forgotten", func() bool {
		runtime.GC()
		return gone.Load() >= calls-2
	})
}

// Redis takes no asks, but a line.
func TestLineEdgeNoAsks(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		const n = 10
		h := w.lineHolder()
		w.do("SET", asksKey("x"), "another program's")
		got := make(chan *holdfast.Hold)
		for range n {
			c, _ := w.client()
			go func() { got <- must(t)(w.lock(c).Lock(background)) }()
			synctest.Wait()
		}
		time.Sleep(10 * time.Millisecond)
		unlock(t, h)
		start := time.Now()
		for range n {
			unlock(t, <-got)
		}
		if took := time.Since(start); took > 4500*time.Millisecond {
			t.Errorf("%d waiters needed %v", n, took)
		}
		w.do("DEL", asksKey("x"))
	})
}

// deaf is a driver whose subscriptions can be ended without a word.
type deaf struct {
	*memdriver.Driver
	mu        sync.Mutex
	listeners []*deafListener
}
type deafListener struct {
	driver.Listener
	mu       sync.Mutex
	broken   bool
	channels map[string]bool
}

func (d *deaf) Listen(sink func(driver.Event)) driver.Listener {
	l := &deafListener{channels: map[string]bool{}}
	l.Listener = d.Driver.Listen(sink)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners = append(d.listeners, l)
	return l
}

func (l *deafListener) Subscribe(c string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken && strings.HasPrefix(c, "holdfast_granted") {
		return
	}
	l.channels[c] = true
	l.Listener.Subscribe(c)
}

func (d *deaf) breakAll() {
	for _, l := range d.listeners {
		l.mu.Lock()
		l.broken = true
		for c := range l.channels {
			if strings.HasPrefix(c, "holdfast_granted") {
				l.Unsubscribe(c)
			}
		}
		l.mu.Unlock()
	}
}

// A client that cannot subscribe to its channel any more has the lock in time, too.
func TestLineEdgeNoMoreSubscription(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		d := &deaf{Driver: w.server.Driver()}
		c, err := holdfast.New(d, holdfast.WithoutIdentity())
		if err != nil {
			t.Fatal(err)
		}
		h := w.lineHolder()
		go func() { time.Sleep(10 * time.Millisecond); unlock(t, h) }()
		unlock(t, must(t)(c.NewMutex("x").Lock(background))) // it hears
		d.breakAll()
		others, end := context.WithCancel(background)
		holds := w.inTurns(others, 12, 20*time.Millisecond, func(c *holdfast.Client) holdfast.Locker { return w.lock(c) })
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(background, 40*time.Second)
		defer cancel()
		start := time.Now()
		n, err := c.NewMutex("x").Lock(ctx)
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if n != nil {
			unlock(t, n)
		}
		end()
		holds()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A forced unlock leaves nothing behind.
func TestLineEdgeForceLeavesNothing(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		first, second := w.line(), w.line()
		other := w.server.Driver().Listen(func(driver.Event) {})
		other.Subscribe("redisson_lock__channel:{x}")
		synctest.Wait()
		unlock(t, h)
		forced := first.hold(t)
		c, _ := w.client()
		if _, err := c.NewMutex("x").ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		n := second.hold(t)
		_ = forced.Unlock()
		unlock(t, n)
		other.Close()
		time.Sleep(2 * time.Second) // until the turn of others is forgotten
		w.wantReply("", "KEYS", "*")
	})
}

// What has been detached is not given back: a leave that an earlier call has left is about the hold that it became.
func TestLineEdgeDetachedIsGivenBack(t *testing.T) {
	for _, fair := range []bool{false, true} {
		fake(t, func(t *testing.T, w *world) {
			const timeout = 2 * time.Second
			lock := func(c *holdfast.Client) interface {
				Lock(ctx context.Context, options ...holdfast.LockOption) (*holdfast.Hold, error)
				Adopt(ctx context.Context, owner holdfast.Owner, options ...holdfast.TryOption) (*holdfast.Hold, error)
			} {
				if fair {
					return c.NewFairMutex("x")
				}
				return c.NewMutex("x")
			}
			first, _ := w.client()
			h := must(t)(lock(first).Lock(background))
			c, d := w.client(holdfast.WithTimeout(timeout))
			base := holdfast.WithOwner(background, c.NewOwner())
			got := make(chan *holdfast.Hold)
			go func() { got <- must(t)(lock(c).Lock(base)) }()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			d.LoseMessages(true)
			lose := true
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				f := memdriver.Fault{LoseReply: lose && call.Script.Name() == "acquire"}
				lose = lose && !f.LoseReply
				return f
			})
			unlock(t, h)
			n := <-got // one of its attempts was not answered
			nested := must(t)(lock(c).Lock(n.Context()))
			away(d)
			ctx, cancel := context.WithTimeout(n.Context(), 10*time.Millisecond)
			defer cancel()
			_, _ = lock(c).Lock(ctx)
			time.AfterFunc(timeout+timeout/2, func() { d.SetFaults(nil) })
			if nested.Unlock() == nil { // it is given back in the background, once Redis answers
				t.Fatal("Redis has answered")
			}
			owner, err := n.Detach()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			w.wantReply("1", "EXISTS", "x")
			if a, err := lock(first).Adopt(background, owner); err != nil {
				t.Errorf("fair %v: Adopt: %v", fair, err)
			} else {
				unlock(t, a)
			}
		})
	}
}

// MinHold keeps a lock, and the first in line is told for how long. If that one leaves, the next one is told.
func TestLineEdgeMinHoldIsToldToTheNext(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder(holdfast.MinHold(300 * time.Millisecond))
		acquired := time.Now()
		first, next := w.line(), w.line()
		w.wantInLine(first, next)
		unlock(t, h)
		time.Sleep(100 * time.Millisecond)
		first.cancel(context.Canceled)
		unlock(t, next.within(t, acquired, 310*time.Millisecond))
	})
}
