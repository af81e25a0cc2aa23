package line

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The rules of the line that a waiter keeps.

// wantSoon returns the hold that is to be had by now, or within a moment.
func wantSoon(t *testing.T, got <-chan *holdfast.Hold) *holdfast.Hold {
	t.Helper()
	select {
	case h := <-got:
		if h == nil {
			t.Fatal("Lock failed")
		}
		return h
	case <-time.After(10 * time.Millisecond):
		t.Fatal("it does not have the lock")
		return nil
	}
}

// A message that comes when its grant has ended, and the waiter has asked again, is not about that ask.
func TestLineRuleLateMessage(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		d, by := w.Server.Driver(), new(atomic.Int64)
		by.Store(int64(3400 * time.Millisecond))
		b, err := testclient.New(slowMessages{d, by}, holdfast.WithoutIdentity(), holdfast.WithTimeout(600*time.Millisecond))
		kit.OK(t, err)
		held := kit.Must(t)(a.NewMutex("x").Lock(background))
		got := kit.Waiting(t, b.NewMutex("x"), background)
		wantStanding(w, 1)
		kit.Away(d)
		kit.Unlock(t, held) // the message will come 3.4 s later, 0.4 s after the grant has ended
		wantStanding(w, 0)
		time.Sleep(3010 * time.Millisecond)
		held = kit.Must(t)(a.NewMutex("x").TryLock(background))
		d.SetFaults(nil)
		time.Sleep(380 * time.Millisecond)
		wantStanding(w, 1) // it has asked again
		time.Sleep(200 * time.Millisecond)
		kit.Nothing(t, got, "it believes in a grant that has ended")
		kit.Unlock(t, held)
		h := <-got
		kit.Unlock(t, h)
		time.Sleep(4 * time.Second) // the rest of what was published
		kit.OK(t, b.Close())
	})
}

// A message may come before the answer to the ask that it is about.
func TestLineRuleEarlyMessage(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		held := kit.Must(t)(a.NewMutex("x").Lock(background))
		got := kit.Waiting(t, b.NewMutex("x"), background)
		wantStanding(w, 1)
		time.Sleep(500 * time.Millisecond)
		asks := 0
		d.SetFaults(func(driver.Call) memdriver.Fault {
			asks++
			return memdriver.Fault{DelayReply: 400 * time.Millisecond}
		})
		time.Sleep(600 * time.Millisecond) // it has asked again after a second
		kit.Unlock(t, held)
		time.Sleep(300 * time.Millisecond)
		if h := wantSoon(t, got); asks != 1 {
			t.Errorf("it has asked %d times", asks)
		} else {
			d.SetFaults(nil)
			kit.Unlock(t, h)
		}
	})
}

// A hold that needs more than its lease does not begin with a message: Redis is asked, and has it live for as long as it shall.
func TestLineRuleAsksBefore(t *testing.T) {
	for what, row := range map[string]struct {
		options []holdfast.LockOption
		mutex   []holdfast.MutexOption
		client  []holdfast.ClientOption
		lives   time.Duration
		want    func(w *kit.World, h *holdfast.Hold)
	}{
		"fixed lease": {options: []holdfast.LockOption{holdfast.FixedLease(10 * time.Second)}, lives: 10 * time.Second},
		"MinHold": {options: []holdfast.LockOption{holdfast.MinHold(5 * time.Second)}, lives: 30 * time.Second, want: func(w *kit.World, h *holdfast.Hold) {
			kit.Unlock(w.T, h)
			time.Sleep(5*time.Second + time.Millisecond)
		}},
		"fenced": {mutex: []holdfast.MutexOption{holdfast.Fenced(holdfast.TokenTTL(time.Minute))}, lives: 30 * time.Second, want: func(w *kit.World, h *holdfast.Hold) {
			if h.Token() == 0 {
				w.T.Error("no token")
			}
			w.Do("DEL", protocol.TokenKey("x"))
		}},
		"replicas": {client: []holdfast.ClientOption{holdfast.WithReplicaAck(1, time.Second)}, lives: 30 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				w.Server.SetReplicas(1)
				a, _ := w.Client()
				b, d := w.Client(row.client...)
				held := kit.Must(t)(a.NewMutex("x").Lock(background))
				got := kit.Waiting(t, b.NewMutex("x", row.mutex...), background, row.options...)
				wantStanding(w, 1)
				calls := kit.Count(d)
				kit.Unlock(t, held)
				h := wantSoon(t, got)
				if n := calls.Of("acquire"); n != 1 {
					t.Errorf("it asked %d times", n)
				}
				if lives := w.PTTL("x"); lives != row.lives {
					t.Errorf("the key lives for %v, want %v", lives, row.lives)
				}
				if left := time.Until(h.Deadline()); left < row.lives*9/10 {
					t.Errorf("trusted for %v", left)
				}
				if row.want != nil {
					row.want(w, h)
				}
				_ = h.Unlock() // of that with MinHold again
			})
		})
	}
}

// Who does not hear yet does not stand in line: a release would drop it there.
func TestLineRuleHearsFirst(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		held := kit.Must(t)(a.NewMutex("x").Lock(background))
		heard := false
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "acquire" && len(call.Args) > 7 { // it has a number
				heard = true
				if channels := w.Do("PUBSUB", "CHANNELS", "holdfast_granted:*"); channels == "" {
					t.Error("it stands in line, and does not listen")
				}
			}
			return memdriver.Fault{}
		})
		got := kit.Waiting(t, b.NewMutex("x"), background)
		if wantStanding(w, 1); !heard {
			t.Error("it never asked with a number")
		}
		kit.Unlock(t, held)
		kit.Unlock(t, wantSoon(t, got))
	})
}

// When the one of a process that stands in line has the lock, or gives up, the next of those who wait there stands in line at once.
func TestLineRuleNextStands(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		x, fixed := b.NewMutex("x"), holdfast.FixedLease(20*time.Second) // so that it does not pass on
		held := kit.Must(t)(a.NewMutex("x").Lock(background))
		ctx, cancel := context.WithCancel(background)
		first := kit.Waiting(t, x, ctx, fixed)
		second := kit.Waiting(t, x, background, fixed)
		third := kit.Waiting(t, x, background, fixed)
		wantStanding(w, 1)
		before := w.Do("ZRANGE", kit.LineKey("x"), "0", "-1")
		cancel()
		<-first
		synctest.Wait()
		if wantStanding(w, 1); w.Do("ZRANGE", kit.LineKey("x"), "0", "-1") == before {
			t.Error("who has given up stands there")
		}
		kit.Unlock(t, held)
		h := wantSoon(t, second)
		synctest.Wait()
		wantStanding(w, 1)
		kit.Unlock(t, h)
		kit.Unlock(t, wantSoon(t, third))
	})
}

// Where there is no line, a waiter asks when the key has ended.
func TestLineRuleOutsideAsksAtTheKeysEnd(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, d := w.Client(holdfast.WithLease(5 * time.Second))
		b, _ := w.Client()
		held := kit.Must(t)(a.NewRWMutex("x").Lock(background))
		kit.Away(d)
		start := time.Now()
		kit.Unlock(t, kit.Must(t)(b.NewRWMutex("x").Lock(background)))
		kit.Took(t, time.Since(start), 0, 5005*time.Millisecond, "waited %v for a key that lived 5s")
		d.SetFaults(nil)
		_ = held.Unlock() // it is lost
	})
}

// While somebody listens who does not stand in line, a process that has had its turn lets it try first.
func TestLineRuleHandOverHoldsBack(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		x := c.NewMutex("x")
		other := listening(w, protocol.LockChannel("x"))
		held := kit.Must(t)(x.Lock(background))
		next, last := kit.Waiting(t, x, background), kit.Waiting(t, x, background)
		kit.Unlock(t, held)
		held = wantSoon(t, next)
		time.Sleep(25 * time.Millisecond) // its turn is over
		start := time.Now()
		kit.Unlock(t, held)
		held = wantSoon(t, last)
		if took := time.Since(start); took < 100*time.Microsecond {
			t.Errorf("the next one has asked after %v", took)
		}
		kit.Unlock(t, held)
		other.Close()
	})
}
