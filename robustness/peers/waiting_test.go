package peers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Who waits gets a lock soon after it is free, whatever was lost, and whoever has died.

// acquired has something acquired, and returns when that was.
func (w *world) acquired(acquire func() (*holdfast.Hold, error)) <-chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		h, err := acquire()
		at <- time.Now()
		if err == nil {
			err = h.Unlock()
		}
		if err != nil {
			w.t.Error(err)
		}
	}()
	synctest.Wait()
	return at
}

// redisson#5761, #1763: a waiter relies on the message, and looks by itself when the time to live has
// passed that it was told.
func TestMissedMessage(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.do("SET", "x", "another", "PX", lease.Milliseconds())
		message := make(chan struct{})
		left := w.ttl("x")
		free := time.Now()
		w.do("DEL", "x") // and the message is lost
		select {
		case <-message:
		case <-time.After(left):
		}
		if waited := time.Since(free); waited < lease {
			t.Errorf("the model does not show the bug: it waited for %v", waited)
		}
	}, func(t *testing.T, w *world) {
		for _, back := range []bool{false, true} {
			holder, _ := w.client()
			h := w.hold(holder.NewMutex("x").Lock(background))
			c, d := w.client()
			at := w.acquired(func() (*holdfast.Hold, error) { return c.NewMutex("x").Lock(background) })
			time.Sleep(time.Second)
			d.LoseMessages(true)
			free := time.Now()
			w.unlock(h)
			most := 3 * time.Second
			if back {
				time.Sleep(20 * time.Millisecond)
				d.LoseMessages(false) // it listens again
				most = 100 * time.Millisecond
			}
			if waited := (<-at).Sub(free); waited > most {
				t.Errorf("listens again %v: it waited for %v", back, waited)
			}
			d.LoseMessages(false)
		}
	})
}

// redisson#1104, #2099: the time until which a waiter of a fair lock is believed to live is counted
// from that of the waiter before it, so dead ones add up.
func TestFairTimeoutsDrift(t *testing.T) {
	const dead, each = 5, 5 * time.Minute
	both(t, func(t *testing.T, w *world) {
		last := time.Now()
		for i := range dead {
			last = last.Add(each)
			w.do("RPUSH", "line", i)
			w.do("ZADD", "until", last.UnixMilli(), i)
		}
		free := time.Now()
		for w.number(w.do("LLEN", "line")) > 0 { // each try drops a first one whose time is over
			first := w.do("LINDEX", "line", 0)
			if w.number(w.do("ZSCORE", "until", first)) < time.Now().UnixMilli() {
				w.do("LPOP", "line")
			} else {
				time.Sleep(time.Second)
			}
		}
		if waited := time.Since(free); waited < dead*each {
			t.Errorf("the model does not show the bug: the lock was free for %v", waited)
		}
	}, func(t *testing.T, w *world) {
		holder, _ := w.client()
		h := w.hold(holder.NewFairMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		defer cancel()
		for range dead {
			c, d := w.client()
			go func() {
				if h, err := c.NewFairMutex("x").Lock(ctx); err == nil {
					t.Errorf("a dead one has it: %v", h)
				}
			}()
			synctest.Wait()
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			d.LoseMessages(true)
		}
		c, _ := w.client()
		at := w.acquired(func() (*holdfast.Hold, error) { return c.NewFairMutex("x").Lock(background) })
		free := time.Now()
		w.unlock(h)
		if waited := (<-at).Sub(free); waited > 5*time.Second {
			t.Errorf("it waited for %v", waited)
		}
		cancel()
	})
}

// redisson#5019, PR#7223: who gives up stays in the line, and the lock is kept for it.
func TestFairEntryLeftBehind(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const bound = time.Minute
		acquire := func(who string, within time.Duration) (held bool) {
			w.do("RPUSH", "line", who)
			for until := time.Now().Add(within); time.Now().Before(until); time.Sleep(time.Second) {
				if w.do("LINDEX", "line", 0) == who && w.do("SET", "x", who, "NX") == "OK" {
					w.do("LPOP", "line")
					return true
				}
			}
			return false // this is the bug: it stays in the line
		}
		w.do("SET", "x", "the holder")
		if acquire("gives up", 3*time.Second) {
			t.Error("the lock was held")
		}
		w.do("DEL", "x")
		if acquire("next", bound) {
			t.Error("the model does not show the bug")
		}
	}, func(t *testing.T, w *world) {
		holder, _ := w.client()
		h := w.hold(holder.NewFairMutex("x").Lock(background))
		one, d := w.client()
		ctx, cancel := context.WithCancel(background)
		gone := make(chan error, 1)
		go func() {
			_, err := one.NewFairMutex("x").Lock(ctx)
			gone <- err
		}()
		synctest.Wait()
		w.next(d, "leave", memdriver.Fault{LoseRequest: true})
		c, _ := w.client()
		at := w.acquired(func() (*holdfast.Hold, error) { return c.NewFairMutex("x").Lock(background) })
		cancel()
		<-gone
		time.Sleep(3 * time.Second) // its leaving is sent once more
		free := time.Now()
		w.unlock(h)
		if waited := (<-at).Sub(free); waited > 100*time.Millisecond {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// redisson#6664: one release is one wake-up, and a waiter of two permits waits for two.
func TestPermitsOfSeveral(t *testing.T) {
	const bound = time.Minute
	both(t, func(t *testing.T, w *world) {
		w.do("SET", "x", 0)
		wakeUps := make(chan struct{}, 8)
		w.do("INCRBY", "x", 2)
		wakeUps <- struct{}{} // as there is one who waits
		free := time.Now()
		timeout := time.After(bound)
		for range 2 { // as many as it wants
			select {
			case <-wakeUps:
			case <-timeout:
			}
		}
		if waited := time.Since(free); waited < bound {
			t.Errorf("the model does not show the bug: it waited for %v", waited)
		}
	}, func(t *testing.T, w *world) {
		holder, _ := w.client()
		sem := holder.NewPermitSemaphore("x", holdfast.Permits(2))
		h := w.hold(sem.Acquire(background, 2))
		c, _ := w.client()
		at := w.acquired(func() (*holdfast.Hold, error) {
			return c.NewPermitSemaphore("x").Acquire(background, 2, holdfast.Wait(bound))
		})
		time.Sleep(time.Second)
		free := time.Now()
		w.unlock(h)
		if waited := (<-at).Sub(free); waited > 10*time.Millisecond {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// The like of rueidis#457, #653: a wake-up goes to one who is just leaving.
func TestWakeUpOfOneWhoLeaves(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		wakeUps := make(chan struct{}, 8)
		w.do("SET", "x", "another", "PX", lease.Milliseconds())
		left := w.ttl("x")
		w.do("DEL", "x")
		wakeUps <- struct{}{}
		<-wakeUps // the first takes it, finds that its time is over, and leaves
		free := time.Now()
		select {
		case <-wakeUps:
		case <-time.After(left):
		}
		if waited := time.Since(free); waited < lease {
			t.Errorf("the model does not show the bug: it waited for %v", waited)
		}
	}, func(t *testing.T, w *world) {
		holder, _ := w.client()
		c, d := w.client()
		for range 50 {
			h := w.hold(holder.NewMutex("x").Lock(background))
			ctx, cancel := context.WithCancel(background)
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if h, err := c.NewMutex("x").Lock(ctx); err == nil {
					w.unlock(h)
				}
			}()
			synctest.Wait()
			at := w.acquired(func() (*holdfast.Hold, error) { return c.NewMutex("x").Lock(background) })
			d.SetFaults(func(driver.Call) memdriver.Fault { cancel(); return memdriver.Fault{} }) // as it asks
			free := time.Now()
			w.unlock(h)
			<-gone
			if waited := (<-at).Sub(free); waited > 100*time.Millisecond {
				t.Errorf("it waited for %v", waited)
			}
			cancel()
			d.SetFaults(nil)
		}
	})
}
