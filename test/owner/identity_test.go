package owner

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// clientKey is that of a client's hash.
func clientKey(c *holdfast.Client) string { return "holdfast_client:" + c.ID()[:18] }

// The client's hash comes with the first acquire, lives for an hour from the last time that it was
// written, which is every twenty minutes while the client holds something, and goes with the client.
func TestIdentityInRedis(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Known()
		key := clientKey(c)
		began := time.Now()
		w.WantReply("0", "EXISTS", key)
		hold := kit.Must(t)(c.NewMutex("x").TryLock(background))
		synctest.Wait()
		w.WantReply("billing v1.2.3 web-3 4711", "HMGET", key, "program", "version", "host", "pid")
		if ttl := w.PTTL(key); ttl != time.Hour {
			t.Errorf("it lives for %v", ttl)
		}
		who, err := c.Who(background, hold.Owner())
		if err != nil || !who.Since.Equal(began) {
			t.Errorf("since %v, %v; want %v", who.Since, err, began)
		}
		time.Sleep(100 * time.Minute)
		if ttl := w.PTTL(key); ttl < 39*time.Minute {
			t.Errorf("after 100 minutes it lives for %v", ttl)
		}
		w.Do("DEL", key) // as a failover may
		time.Sleep(21 * time.Minute)
		w.WantReply("1", "EXISTS", key)
		kit.OK(t, c.Close())
		time.Sleep(2 * time.Second) // until the turn of others is forgotten
		w.WantReply("", "KEYS", "*")
	})
}

// Errors and states name the holder, and say for how long it has held the lock.
func TestHolderIsNamed(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Known()
		b, _ := w.Known()
		x := b.NewMutex("x")
		hold := kit.Must(t)(a.NewMutex("x").TryLock(background))
		time.Sleep(500 * time.Millisecond)
		refused := func(x holdfast.Locker) *holdfast.LockedError {
			t.Helper()
			_, err := x.TryLock(background)
			var e *holdfast.LockedError
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return e
		}
		if e := refused(x); e.Who.PID != 4711 || e.HeldFor != 0 {
			t.Errorf("%+v", e)
		}
		time.Sleep(11500 * time.Millisecond)
		want := `holdfast: "x": held by another owner: billing@web-3 pid 4711, for 12s, at most 29s more unless renewed`
		if e := refused(x); e.Error() != want || e.HeldFor != 12*time.Second || e.Holder != hold.Owner() {
			t.Errorf("%v\n%+v, want %s", e, e, want)
		}
		want = `holdfast: "x": held by another call of this client, for 12s, at most 29s more unless renewed; to nest in it, lock with the context of its hold`
		if e := refused(a.NewMutex("x")); e.Error() != want || e.Who.Program != "billing" || e.HeldFor != 12*time.Second {
			t.Errorf("of its own client's: %+v", e) // without a question
		}
		state, err := x.Inspect(background)
		if err != nil || len(state.Holders) != 1 || state.Holders[0].Who.Host != "web-3" || state.Holders[0].HeldFor != 12*time.Second {
			t.Errorf("%+v, %v", state, err)
		}
		_, err = x.Lock(background, holdfast.Wait(5*time.Second))
		var e *holdfast.LockedError
		if !errors.As(err, &e) || e.HeldFor != 17*time.Second {
			t.Errorf("after a wait: %v", err)
		}

		// The next hold does not have what the one before had.
		kit.OK(t, hold.Unlock())
		synctest.Wait()
		if n := w.Do("HLEN", clientKey(a)); n != "5" {
			t.Errorf("its hash has %s fields", n)
		}
		defer kit.Unlock(t, kit.Must(t)(a.NewMutex("x").TryLock(background)))
		if e := refused(x); e.HeldFor != 0 || e.Who.PID != 4711 {
			t.Errorf("%+v", e)
		}
	})
}

// Every kind's holders are named: readers, writers, permits, parts of several locks.
func TestHoldersOfAllKindsAreNamed(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Known()
		b, _ := w.Known()
		kit.OK(t, a.NewPermitSemaphore("permits").SetPermits(background, 5))
		permits, err := a.NewPermitSemaphore("permits").Acquire(background, 3)
		kit.OK(t, err)
		defer kit.Unlock(t, permits)
		defer kit.Unlock(t, kit.Must(t)(a.NewFairMutex("fair").Lock(background)))
		defer kit.Unlock(t, kit.Must(t)(a.NewRWMutex("readers").RLock(background)))
		defer kit.Unlock(t, kit.Must(t)(a.NewRWMutex("writer").Lock(background)))
		defer kit.Unlock(t, kit.Must(t)(holdfast.NewMultiLock(a.NewMutex("m1"), a.NewMutex("m2")).Lock(background)))
		time.Sleep(2 * time.Second)
		for name, l := range map[string]interface {
			Inspect(ctx context.Context) (holdfast.State, error)
		}{
			"permits": b.NewPermitSemaphore("permits"), "fair": b.NewFairMutex("fair"), "readers": b.NewRWMutex("readers"),
			"writer": b.NewRWMutex("writer"), "m1": b.NewMutex("m1"),
		} {
			state, err := l.Inspect(background)
			if err != nil || len(state.Holders) == 0 {
				t.Errorf("%s: %+v, %v", name, state, err)
			}
			for _, h := range state.Holders {
				if h.Who.String() != "billing@web-3 pid 4711" || h.HeldFor != 2*time.Second {
					t.Errorf("%s: %+v", name, h)
				}
			}
		}
		_, err = holdfast.NewMultiLock(b.NewMutex("m1"), b.NewMutex("m2")).TryLock(background)
		if err == nil || !strings.Contains(err.Error(), "billing@web-3 pid 4711, for 2s") {
			t.Errorf("of several: %v", err)
		}
		for _, id := range permits.PermitIDs() {
			if raw, err := hex.DecodeString(id.String()); err != nil || len(raw) != 16 || !strings.HasPrefix(strings.ReplaceAll(a.ID(), "-", ""), id.String()[:16]) {
				t.Errorf("permit %s of client %s", id, a.ID())
			}
		}
		w.Do("DEL", "permits", "holdfast_calls:{permits}")
	})
}

// hashesSuffer makes something happen to every call that is about what a client says of itself.
func hashesSuffer(fault memdriver.Fault, drivers ...*memdriver.Driver) {
	for _, d := range drivers {
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if strings.HasPrefix(call.Keys[0], "holdfast_client:") {
				return fault
			}
			return f
		})
	}
}

// Nothing fails, waits or is left without an end if the hash cannot be written or read: the server
// does not answer to it, refuses it, or something else stands at its key.
func TestIdentityIsNoCondition(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"no answer": {LoseRequest: true}, "no reply": {LoseReply: true}, "refused": {Refuse: driver.ServerError("NOPERM this user has no permissions", errors.New("NOPERM"))},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				a, da := w.Known()
				b, db := w.Known()
				hashesSuffer(fault, da, db)
				began := time.Now()
				hold := kit.Must(t)(a.NewMutex("x").TryLock(background))
				kit.Took(t, time.Since(began), 0, 0, "the acquire took %v")
				time.Sleep(2 * time.Second)
				began = time.Now()
				kit.Fails(t, holdfast.ErrLocked)(b.NewMutex("x").TryLock(background))
				kit.Took(t, time.Since(began), 0, 250*time.Millisecond, "the refusal took %v")
				kit.Unlock(t, hold)
			})
		})
	}
}

// Close deletes what the client has said of itself, though a connection is cut, or requests are lost. A user who may not is
// not asked for it again.
func TestIdentityEndsWithItsClient(t *testing.T) {
	for name, test := range map[string]struct {
		fault memdriver.Fault // of the first two calls
		calls int32
		left  string
	}{
		"cut twice":  {fault: memdriver.Fault{Refuse: errors.New("connection reset")}, calls: 3, left: "0"},
		"lost twice": {fault: memdriver.Fault{LoseRequest: true}, calls: 3, left: "0"},
		"no right": {
			fault: memdriver.Fault{Refuse: driver.ServerError("NOPERM this user has no permissions", errors.New("NOPERM"))}, calls: 1, left: "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				a, d := w.Known()
				kit.Unlock(t, kit.Must(t)(a.NewMutex("x").TryLock(background)))
				synctest.Wait()
				var calls atomic.Int32
				d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
					if strings.HasPrefix(call.Keys[0], "holdfast_client:") && calls.Add(1) <= 2 {
						return test.fault
					}
					return f
				})
				if n := w.Do("EXISTS", clientKey(a)); n != "1" {
					t.Fatalf("%s hashes before Close", n)
				}
				kit.OK(t, a.Close())
				if n := w.Do("EXISTS", clientKey(a)); n != test.left || calls.Load() != test.calls {
					t.Errorf("%s hashes after Close and %d calls, want %s and %d", n, calls.Load(), test.left, test.calls)
				}
				w.Do("DEL", clientKey(a))
			})
		})
	}
}

// Where the hash is not to be had, an Inspect does without it, and Close does not wait for it.
func TestIdentityKeepsNobodyWaiting(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"no answer": {LoseRequest: true}, "slot not served": {Refuse: driver.ServerError("CLUSTERDOWN Hash slot not served", errors.New("CLUSTERDOWN"))},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				a, da := w.Known()
				b, db := w.Known()
				hold := kit.Must(t)(a.NewMutex("x").TryLock(background))
				synctest.Wait()
				hashesSuffer(fault, da, db)
				began := time.Now()
				state, err := b.NewMutex("x").Inspect(background)
				if took := time.Since(began); err != nil || !state.HeldBy(hold.Owner()) || took > time.Second {
					t.Errorf("Inspect: %+v, %v after %v", state, err, took)
				}
				kit.Unlock(t, hold)
				for _, c := range []*holdfast.Client{a, b} {
					began = time.Now()
					kit.OK(t, c.Close())
					kit.Took(t, time.Since(began), 0, 500*time.Millisecond, "Close took %v")
				}
				w.Do("DEL", clientKey(a), clientKey(b))
			})
		})
	}
}

// One owner that holds both sides of a read-write lock has held it since the first, until the last.
func TestIdentityOfBothSides(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Known()
		b, _ := w.Known()
		heldFor := func(want time.Duration) {
			t.Helper()
			state, err := b.NewRWMutex("rw").Inspect(background)
			if err != nil || len(state.Holders) == 0 {
				t.Fatalf("%+v, %v", state, err)
			}
			for _, h := range state.Holders {
				if h.HeldFor != want {
					t.Errorf("%+v, want %v", h, want)
				}
			}
		}
		writes := kit.Must(t)(a.NewRWMutex("rw").Lock(background))
		time.Sleep(10 * time.Second)
		reads := kit.Must(t)(a.NewRWMutex("rw").RLock(writes.Context()))
		time.Sleep(2 * time.Second)
		heldFor(12 * time.Second)
		kit.Unlock(t, reads)
		synctest.Wait()
		heldFor(12 * time.Second)
		reads = kit.Must(t)(a.NewRWMutex("rw").RLock(writes.Context()))
		time.Sleep(2 * time.Second)
		kit.Unlock(t, writes)
		synctest.Wait()
		heldFor(14 * time.Second)
		kit.Unlock(t, reads)
		synctest.Wait()
		if n := w.Do("HLEN", clientKey(a)); n != "5" {
			t.Errorf("its hash has %s fields", n)
		}
	})
}

// Redisson's owners have no such hash, and nobody asks for one; nor is asked who has switched it off.
func TestIdentityIsNotAskedFor(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		b, db := w.Known()
		off, doff := w.Client(holdfast.WithoutIdentity())
		n, noff := kit.Count(db), kit.Count(doff)
		const redisson = "285475da-9152-4c83-822a-67ee2f116a79:52"
		w.Do("HSET", "x", redisson, "1")
		w.Do("PEXPIRE", "x", "30000")
		_, err := b.NewMutex("x").TryLock(background)
		if want := `holdfast: "x": held by another owner: ` + redisson + ", at most 30s more unless renewed"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		w.Do("DEL", "x")
		hold := kit.Must(t)(b.NewMutex("x").TryLock(background))
		defer kit.Unlock(t, hold)
		synctest.Wait()
		_, err = off.NewMutex("x").TryLock(background)
		if err == nil || !strings.Contains(err.Error(), hold.Owner().String()) {
			t.Error(err)
		}
		if _, err := off.NewMutex("x").Inspect(background); err != nil {
			t.Error(err)
		}
		if n.Of("read") != 0 || noff.Of("read") != 0 || noff.Of("write") != 0 {
			t.Errorf("%v and %v", n, noff)
		}
	})
}

// A client without an identity writes nothing of itself, also at the end of a long hold.
func TestWithoutIdentityNothingIsWritten(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithoutIdentity())
		n := kit.Count(d)
		hold := kit.Must(t)(c.NewMutex("x").TryLock(background))
		time.Sleep(25 * time.Minute)
		kit.Unlock(t, hold)
		synctest.Wait()
		w.WantReply("", "KEYS", "holdfast_client:*")
		kit.OK(t, c.Close())
		if n.Of("write") != 0 || n.Of("read") != 0 || n.Of("delete") != 0 {
			t.Errorf("%v", n)
		}
	})
}

// What anybody has written there does no harm.
func TestHostileIdentity(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Known()
		b, _ := w.Known()
		hold := kit.Must(t)(a.NewMutex("x").TryLock(background))
		defer kit.Unlock(t, hold)
		synctest.Wait()
		w.Do("HSET", clientKey(a), "program", "\x1b[2Jroot\n\u202e", "host", strings.Repeat("é", 5000), "pid", "1e3", "since", "-1",
			hold.Owner().String()+" x", "99999999999999999999")
		_, err := b.NewMutex("x").TryLock(background)
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\n\u202e") || len(err.Error()) > 400 || !strings.Contains(err.Error(), "[2Jroot@é") {
			t.Errorf("%q", err)
		}
		w.Do("DEL", clientKey(a))
		w.Do("SET", clientKey(a), "something else")
		_, err = b.NewMutex("x").TryLock(background)
		if err == nil || !strings.Contains(err.Error(), hold.Owner().String()) {
			t.Errorf("%q", err)
		}
		w.Do("DEL", clientKey(a))
	})
}

// What a client says outlives it for as long as a hold does.
func TestIdentityOfAMinHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Known()
		kit.Must(t)(a.NewMutex("x").TryLock(background, holdfast.MinHold(time.Minute)))
		synctest.Wait()
		kit.OK(t, a.Close())
		b, _ := w.Known()
		_, err := b.NewMutex("x").TryLock(background)
		var refused *holdfast.LockedError
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		w.WantReply("1", "EXISTS", clientKey(a))
		if said := err.Error(); !strings.HasSuffix(said, ": kept by MinHold of "+refused.Who.String()+", 1m0s more") {
			t.Errorf("it says %q", said)
		}
		time.Sleep(time.Minute + time.Second)
		w.WantReply("0", "EXISTS", clientKey(a))
	})
}

func TestIdentityDefaults(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithIdentity(holdfast.Identity{Host: "pod-7"}))
		who, err := c.Who(background, c.NewOwner())
		if err != nil || who.PID != os.Getpid() || who.Host != "pod-7" || who.Program != "owner.test" {
			t.Errorf("%+v, %v", who, err)
		}
		for _, i := range []holdfast.Identity{{Program: "a\x1b"}, {Host: strings.Repeat("h", 129)}, {PID: -1}} {
			_, err := holdfast.New(w.Server.Driver(), holdfast.WithIdentity(i))
			kit.WantError(t, err, holdfast.ErrInvalid)
		}
	})
}
