package line

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
	"github.com/holdfast-go/holdfast/test/kit"
)

// A hold that begins with a message may last for MaxHold, as any other.
func TestLineEdgeMaxHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		const most = 2 * time.Second
		h := lineHolder(w)
		s := lineOf(w, holdfast.WithMaxHold(most))
		time.Sleep(900 * time.Millisecond)
		kit.Unlock(t, h)
		n := s.Hold(t)
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
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		first := line(w)
		other := listening(w, "redisson_lock__channel:{x}")
		kit.Unlock(t, h) // to the others, who do not take it
		w.Server.SetClock(-time.Minute)
		start := time.Now()
		n := first.Hold(t)
		kit.Took(t, time.Since(start), 0, 4500*time.Millisecond, "it waited for %v beside a free lock")
		other.Close()
		kit.Unlock(t, n)
		w.Server.SetClock(0)
	})
}

// The same for those who do not stand in line: the next turn of theirs is a minute off.
func TestLineEdgeClockGoesBackOthers(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		var opened atomic.Int64
		other := w.Server.Driver().Listen(func(e driver.Event) {
			if e.Kind == driver.Message {
				opened.Add(1)
			}
		})
		other.Subscribe("redisson_lock__channel:{x}")
		synctest.Wait()
		ctx, end := context.WithCancel(background)
		holds := inTurns(w, ctx, 3, 20*time.Millisecond, func(c *holdfast.Client) holdfast.Locker { return w.Lock(c) })
		time.Sleep(10 * time.Millisecond)
		kit.Unlock(t, h)
		time.Sleep(10 * time.Second)
		before := opened.Swap(0)
		w.Server.SetClock(-time.Minute)
		time.Sleep(10 * time.Second)
		if n := opened.Load(); n < before/2 {
			t.Errorf("the lock was left to others %d times in 10 s, and %d times before", n, before)
		}
		end()
		holds()
		other.Close()
		w.Server.SetClock(0)
	})
}

// Those far behind have come to the head of the line since they have asked, and one of them dies with the lock.
func TestLineEdgeFarPlaces(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		near := several(8, func() *kit.Standing { return line(w) })
		dies, last := line(w), line(w)
		kit.Unlock(t, h)
		for _, s := range near[:7] {
			kit.Unlock(t, s.Hold(t))
		}
		eighth := near[7].Hold(t)
		kit.Away(dies.D)
		dies.D.LoseMessages(true)
		kit.Unlock(t, eighth)
		start := time.Now()
		n := last.Hold(t)
		kit.Took(t, time.Since(start), 0, 3*time.Second+1500*time.Millisecond, "the last one waited for %v")
		kit.Unlock(t, n)
	})
}

// The same, and the one that dies has begun its hold: the others know nothing of its lease.
func TestLineEdgeHolderDies(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		near := several(8, func() *kit.Standing { return line(w) })
		ninth, last := lineOf(w, holdfast.WithLease(4*time.Second)), line(w)
		kit.Unlock(t, h)
		for _, s := range near {
			kit.Unlock(t, s.Hold(t))
		}
		n := ninth.Hold(t)
		kit.Away(ninth.D)
		time.Sleep(w.PTTL("x"))
		start := time.Now() // it may be had from now on
		kit.Unlock(t, last.Hold(t))
		kit.Took(t, time.Since(start), 0, 4500*time.Millisecond, "the last one waited for %v beside a free lock")
		_ = n.Unlock()
	})
}

// 40 who are deaf, all believed in.
func TestLineEdgeManyDeaf(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		for range 40 {
			s := line(w)
			defer s.D.LoseMessages(false)
			s.D.LoseMessages(true)
			kit.Away(s.D)
		}
		last := line(w)
		kit.Unlock(t, h)
		start := time.Now()
		n := last.Hold(t)
		kit.Took(t, time.Since(start), 0, 10*time.Second, "it waited for %v behind the dead")
		kit.Unlock(t, n)
	})
}

// A Lock that fails at once leaves nothing in memory.
func TestLineEdgeFailedLockIsForgotten(t *testing.T) {
	server, err := memdriver.NewServer()
	kit.OK(t, err)
	defer server.Close()
	d := server.Driver()
	c, err := holdfast.New(d, holdfast.WithTimeout(60*time.Millisecond))
	kit.OK(t, err)
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
	kit.WaitFor(t, "calls that have failed to be forgotten", func() bool {
		runtime.GC()
		return gone.Load() >= calls-2
	})
}

// Redis takes no asks, but a line.
func TestLineEdgeNoAsks(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		const n = 10
		h := lineHolder(w)
		w.Do("SET", kit.AsksKey("x"), "another program's")
		got := make(chan *holdfast.Hold)
		for range n {
			c, _ := w.Client()
			go func() { got <- kit.Must(t)(w.Lock(c).Lock(background)) }()
			synctest.Wait()
		}
		time.Sleep(10 * time.Millisecond)
		kit.Unlock(t, h)
		start := time.Now()
		for range n {
			kit.Unlock(t, <-got)
		}
		if took := time.Since(start); took > 4500*time.Millisecond {
			t.Errorf("%d waiters needed %v", n, took)
		}
		w.Do("DEL", kit.AsksKey("x"))
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
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		d := &deaf{Driver: w.Server.Driver()}
		c, err := holdfast.New(d, holdfast.WithoutIdentity())
		kit.OK(t, err)
		h := lineHolder(w)
		go func() { time.Sleep(10 * time.Millisecond); kit.Unlock(t, h) }()
		kit.Unlock(t, kit.Must(t)(c.NewMutex("x").Lock(background))) // it hears
		d.breakAll()
		others, end := context.WithCancel(background)
		holds := inTurns(w, others, 12, 20*time.Millisecond, func(c *holdfast.Client) holdfast.Locker { return w.Lock(c) })
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(background, 40*time.Second)
		defer cancel()
		start := time.Now()
		n, err := c.NewMutex("x").Lock(ctx)
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if n != nil {
			kit.Unlock(t, n)
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
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		first, second := line(w), line(w)
		other := listening(w, "redisson_lock__channel:{x}")
		kit.Unlock(t, h)
		forced := first.Hold(t)
		c, _ := w.Client()
		if _, err := c.NewMutex("x").ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		n := second.Hold(t)
		_ = forced.Unlock()
		kit.Unlock(t, n)
		other.Close()
		time.Sleep(2 * time.Second) // until the turn of others is forgotten
		w.WantReply("", "KEYS", "*")
	})
}

// What has been detached is not given back: a leave that an earlier call has left is about the hold that it became.
func TestLineEdgeDetachedIsGivenBack(t *testing.T) {
	for _, fair := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
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
			first, _ := w.Client()
			h := kit.Must(t)(lock(first).Lock(background))
			c, d := w.Client(holdfast.WithTimeout(timeout))
			base := holdfast.WithOwner(background, c.NewOwner())
			got := make(chan *holdfast.Hold)
			go func() { got <- kit.Must(t)(lock(c).Lock(base)) }()
			time.Sleep(time.Millisecond)
			synctest.Wait()
			d.LoseMessages(true)
			lose := true
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				f := memdriver.Fault{LoseReply: lose && call.Script.Name() == "acquire"}
				lose = lose && !f.LoseReply
				return f
			})
			kit.Unlock(t, h)
			n := <-got // one of its attempts was not answered
			nested := kit.Must(t)(lock(c).Lock(n.Context()))
			kit.Away(d)
			ctx, cancel := context.WithTimeout(n.Context(), 10*time.Millisecond)
			defer cancel()
			_, _ = lock(c).Lock(ctx)
			time.AfterFunc(timeout+timeout/2, func() { d.SetFaults(nil) })
			if nested.Unlock() == nil { // it is given back in the background, once Redis answers
				t.Fatal("Redis has answered")
			}
			owner, err := n.Detach()
			kit.OK(t, err)
			time.Sleep(time.Second)
			w.WantReply("1", "EXISTS", "x")
			if a, err := lock(first).Adopt(background, owner); err != nil {
				t.Errorf("fair %v: Adopt: %v", fair, err)
			} else {
				kit.Unlock(t, a)
			}
		})
	}
}

// MinHold keeps a lock, and the first in line is told for how long. If that one leaves, the next one is told.
func TestLineEdgeMinHoldIsToldToTheNext(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w, holdfast.MinHold(300*time.Millisecond))
		acquired := time.Now()
		first, next := line(w), line(w)
		wantInLine(w, first, next)
		kit.Unlock(t, h)
		time.Sleep(100 * time.Millisecond)
		first.Cancel(context.Canceled)
		kit.Unlock(t, next.Within(t, acquired, 310*time.Millisecond))
	})
}
