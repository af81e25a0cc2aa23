package peers

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Who has lost a lock is told before another can have it; and who has not, has not.

// rueidislock, seen (see docs/robustness.md): a renewal that nobody has answered moves the deadline.
func TestUnansweredRenewalTrusted(t *testing.T) {
	const short = 3 * time.Second
	both(t, func(t *testing.T, w *world) {
		w.do("SET", "x", "me", "NX", "PX", short.Milliseconds())
		ends := time.Now().Add(short)
		deadline := ends
		for range 2 { // the server is silent, and it finds out after two
			time.Sleep(short / 3)
			deadline = time.Now().Add(short)
		}
		time.Sleep(time.Until(deadline))
		if told := time.Since(ends); told <= 0 || w.exists("x") {
			t.Errorf("the model does not show the bug: told %v after the key had gone", told)
		}
	}, func(t *testing.T, w *world) {
		for _, after := range []time.Duration{0, short / 2} { // before its first renewal, and after that
			c, d := w.client(holdfast.WithLease(short))
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: short / 10} })
			h := w.hold(c.NewMutex("x").Lock(background))
			time.Sleep(after)
			d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
			<-h.Context().Done()
			if !w.exists("x") {
				t.Error("told when the key had gone")
			}
			time.Sleep(short) // for the next one
		}
	})
}

// redisson#4217: there is one renewal for a lock, and giving back its write side ends it.
func TestDowngradeStopsRenewal(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		renewed := map[string]func(){}
		renew := func(owner string) { w.eval(refresh, "x", owner, lease.Milliseconds()) }
		w.eval(addOne, "x", "me:write", lease.Milliseconds())
		renewed["x"] = func() { renew("me:write") }
		w.do("HSET", "x", "me", 1) // it reads, too, and is renewed with the other
		w.do("HDEL", "x", "me:write")
		delete(renewed, "x")
		for range 10 {
			time.Sleep(lease / 3)
			for _, f := range renewed {
				f()
			}
		}
		if w.exists("x") {
			t.Error("the model does not show the bug")
		}
	}, func(t *testing.T, w *world) {
		c, _ := w.client()
		mu := c.NewRWMutex("x")
		me := holdfast.WithOwner(background, c.NewOwner())
		write := w.hold(mu.Lock(me))
		read := w.hold(mu.RLock(me))
		w.unlock(write)
		time.Sleep(10 * lease)
		if read.Context().Err() != nil || !w.exists("x") {
			t.Error("the read hold has ended")
		}
		w.unlock(read)
		down := w.hold(mu.Downgrade(w.hold(mu.Lock(background))))
		time.Sleep(10 * lease)
		if down.Context().Err() != nil || !w.exists("x") {
			t.Error("the hold that was downgraded has ended")
		}
		w.unlock(down)
	})
}

// redisson#3994: nobody looks at how many replicas have answered to WAIT.
func TestReplicasUnchecked(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		replica, err := memdriver.NewServer() // nothing reaches it
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(replica.Close)
		wait := func() (acknowledged int) { time.Sleep(100 * time.Millisecond); return 0 }
		acquire := func(who string) (until time.Time) {
			until = time.Now().Add(lease)
			if w.do("SET", "x", who, "NX", "PX", lease.Milliseconds()) != "OK" {
				return time.Time{}
			}
			wait() // this is the bug: what it says is dropped
			return until
		}
		first := acquire("me")
		w.server = replica // a failover
		if second := acquire("another"); !time.Now().Before(first) || !time.Now().Before(second) {
			t.Error("the model does not show the bug: two do not hold it")
		}
	}, func(t *testing.T, w *world) {
		c, _ := w.client(holdfast.WithReplicaAck(1, 100*time.Millisecond))
		h, err := c.NewMutex("x").Lock(background, holdfast.Wait(time.Second))
		if h != nil || !errors.Is(err, holdfast.ErrNotReplicated) {
			t.Errorf("it returned %v, %v", h, err)
		}
		time.Sleep(time.Second)
		if w.exists("x") {
			t.Error("it holds what no replica knows")
		}
		w.server.SetReplicas(1)
		w.unlock(w.hold(c.NewMutex("x").Lock(background)))
	})
}

// vitess#8309, consul PR#5238: a wait that is ended returns neither a lock nor an error.
func TestNothingAndNoError(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		stop := make(chan struct{})
		acquire := func() (lock *string, err error) {
			for w.do("SET", "x", "me", "NX", "PX", lease.Milliseconds()) != "OK" {
				select {
				case <-stop:
					return nil, nil //nolint:nilnil // this is the bug
				case <-time.After(time.Second):
				}
			}
			return new(string), nil
		}
		w.do("SET", "x", "another")
		time.AfterFunc(3*time.Second, func() { close(stop) })
		if lock, err := acquire(); lock != nil || err != nil {
			t.Errorf("the model does not show the bug: %v, %v", lock, err)
		}
	}, func(t *testing.T, w *world) {
		other, _ := w.client()
		h := w.hold(other.NewMutex("x").Lock(background))
		c, _ := w.client()
		time.AfterFunc(3*time.Second, func() { _ = c.Close() }) // it has nothing to give back
		if h, err := c.NewMutex("x").Lock(background); h != nil || !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("it returned %v, %v", h, err)
		}
		w.unlock(h)
	})
}
