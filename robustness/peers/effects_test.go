package peers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// A call that is repeated, or that nobody waits for any more, has its effect once or not at all.

const (
	lease = 30 * time.Second

	// addOne is an acquire that adds to the count, as a reentrant lock's may.
	addOne = `if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 1
end
return 0`
	// takeOne is a release that takes one off, and sets the time to live anew if some are left.
	takeOne = `if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return 0
end
redis.call('DEL', KEYS[1])
return 1`
	// refresh is a renewal: of whatever this owner holds.
	refresh = `if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
	return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`
	// deleteMine gives back what is still this token's.
	deleteMine = `return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0`
)

// redisson#7367, #4822: the answer to an acquire is lost, and the client repeats it.
func TestRepeatedAcquire(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		for range 2 { // the first answer is lost
			w.eval(addOne, "x", "me", lease.Milliseconds())
		}
		w.eval(takeOne, "x", "me", lease.Milliseconds())
		if count := w.number(w.do("HGET", "x", "me")); count != 1 {
			t.Errorf("the model holds it %d times after its release", count)
		}
	}, func(t *testing.T, w *world) {
		c, d := w.client()
		w.next(d, "acquire", memdriver.Fault{LoseReply: true})
		h := w.hold(c.NewMutex("x").Lock(background))
		if count := w.number(w.do("HGET", "x", h.Owner().String())); count != 1 {
			t.Errorf("it holds it %d times", count)
		}
		w.unlock(h)
		if w.exists("x") {
			t.Error("it is held after its release")
		}
	})
}

// redisson#5358: a caller gives up, and what it had sent arrives after that.
func TestLateAcquire(t *testing.T) {
	const late = 5 * time.Second
	both(t, func(t *testing.T, w *world) {
		time.AfterFunc(late, func() {
			if _, err := w.try("SET", "x", "me", "NX", "PX", lease.Milliseconds()); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		w.eval(deleteMine, "x", "me") // it gives up, and cleans up behind itself
		time.Sleep(late)
		if !w.exists("x") {
			t.Error("the model does not show the bug")
		}
	}, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithTimeout(time.Second))
		w.next(d, "acquire", memdriver.Fault{DelayRequest: late})
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		if h, err := c.NewMutex("x").Lock(ctx); h != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it returned %v, %v", h, err)
		}
		for range 100 {
			time.Sleep(late / 50)
			if w.exists("x") {
				t.Fatal("it holds what its caller has given up")
			}
		}
	})
}

// etcd#11456, #11457: the answer comes when the lease is over, and counts as a grant.
func TestGrantedAfterItsLease(t *testing.T) {
	const short = time.Second
	both(t, func(t *testing.T, w *world) {
		granted := w.do("SET", "x", "me", "NX", "PX", short.Milliseconds())
		time.Sleep(2 * short) // on the way
		if granted != "OK" || w.exists("x") {
			t.Errorf("the model does not show the bug: %v", granted)
		}
	}, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithLease(short), holdfast.WithTimeout(time.Minute))
		w.next(d, "acquire", memdriver.Fault{DelayReply: 2 * short})
		h, err := c.NewMutex("x").Lock(background)
		if !errors.Is(err, holdfast.ErrLost) { // it says that it has nothing
			t.Errorf("granted: %v, %v", h, err)
		}
	})
}

// redis-py#3847: a release is cancelled on its way, and cannot be made again.
func TestCancelledRelease(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		w.do("SET", "x", "token", "NX", "PX", lease.Milliseconds())
		token := "token"
		release := func(ctx context.Context) error {
			mine := token
			token = ""
			if mine == "" {
				return errors.New("cannot release an unlocked lock")
			}
			if err := ctx.Err(); err != nil {
				return err // before it was sent
			}
			w.eval(deleteMine, "x", mine)
			return nil
		}
		ctx, cancel := context.WithCancel(background)
		cancel()
		first, again := release(ctx), release(background)
		if first == nil || again == nil || !w.exists("x") {
			t.Errorf("the model does not show the bug: %v, %v", first, again)
		}
	}, func(t *testing.T, w *world) {
		c, d := w.client()
		ctx, cancel := context.WithCancel(background)
		h := w.hold(c.NewMutex("x").Lock(ctx))
		cancel()
		w.next(d, "release", memdriver.Fault{LoseRequest: true})
		w.unlock(h)
		if w.exists("x") {
			t.Error("it is held")
		}
	})
}

// redisson#5623: giving back a nested hold sets the time to live to the default.
func TestNestedReleaseShortens(t *testing.T) {
	const long = 10 * time.Minute
	both(t, func(t *testing.T, w *world) {
		w.eval(addOne, "x", "me", long.Milliseconds())
		w.eval(addOne, "x", "me", long.Milliseconds())
		w.eval(takeOne, "x", "me", lease.Milliseconds())
		if left := w.ttl("x"); left > lease {
			t.Errorf("the model does not show the bug: %v are left", left)
		}
	}, func(t *testing.T, w *world) {
		c, _ := w.client()
		h := w.hold(c.NewMutex("x").Lock(background, holdfast.FixedLease(long)))
		w.unlock(w.hold(c.NewMutex("x").Lock(h.Context())))
		if left := w.ttl("x"); left < long-time.Second {
			t.Errorf("%v of %v are left", left, long)
		}
		w.unlock(h)
	})
}

// redisson#7272: the renewal is scheduled by a callback, after the release that was to end it.
func TestRenewalAfterRelease(t *testing.T) {
	const fixed = 10 * time.Second
	both(t, func(t *testing.T, w *world) {
		renewing, stop := false, make(chan struct{})
		defer close(stop)
		schedule := func() {
			renewing = true
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(lease / 3):
						if _, err := w.try("EVAL", refresh, "1", "x", "me", lease.Milliseconds()); err != nil {
							t.Error(err)
						}
					}
				}
			}()
		}
		w.eval(addOne, "x", "me", lease.Milliseconds())
		if renewing {
			t.Error("there is nothing to end yet")
		}
		w.eval(takeOne, "x", "me", lease.Milliseconds()) // the release ends the renewals that it finds: none
		schedule()                                       // the callback of the acquire
		time.Sleep(time.Second)
		w.eval(addOne, "x", "me", lease.Milliseconds()) // the same thread, later, and it dies
		time.Sleep(10 * lease)
		if !w.exists("x") {
			t.Error("the model does not show the bug")
		}
	}, func(t *testing.T, w *world) {
		c, d := w.client(holdfast.WithLease(3 * time.Second))
		owner := c.NewOwner()
		for range 1000 { // at all moments of the watchdog's turn
			w.unlock(w.hold(c.NewMutex("x").Lock(holdfast.WithOwner(background, owner))))
			time.Sleep(1003 * time.Microsecond)
		}
		var renewals atomic.Int64
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "renew" && call.Args[len(call.Args)-1] != "0" { // which only looks
				renewals.Add(1)
			}
			return memdriver.Fault{}
		})
		h := w.hold(c.NewMutex("x").Lock(holdfast.WithOwner(background, owner)))
		time.Sleep(2 * time.Second)
		if renewals.Load() == 0 {
			t.Error("an ordinary hold was not renewed either")
		}
		w.unlock(h)
		renewals.Store(0)
		h = w.hold(c.NewMutex("x").Lock(holdfast.WithOwner(background, owner), holdfast.FixedLease(fixed)))
		time.Sleep(fixed)
		if w.exists("x") || renewals.Load() > 0 || h.Context().Err() == nil {
			t.Errorf("a fixed lease was renewed: %d renewals", renewals.Load())
		}
		_ = h.Unlock() // it is lost
	})
}
