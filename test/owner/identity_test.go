package owner

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// known is a mutex x, as two clients have it that say who they are.
type known struct {
	*kit.World
	*testing.T

	a, b   *holdfast.Client
	da, db *memdriver.Driver
	x      *holdfast.Mutex // a's
	key    string          // of a's hash
}

func fakeKnown(t *testing.T, f func(s *known)) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, da := w.Known()
		b, db := w.Known()
		f(&known{w, t, a, b, da, db, a.NewMutex("x"), clientKey(a)})
	})
}

// clientKey is that of a client's hash.
func clientKey(c *holdfast.Client) string { return "holdfast_client:" + c.ID()[:18] }

// hold has a hold x, and what it says of that stand in Redis.
func (s *known) hold(options ...holdfast.TryOption) *holdfast.Hold {
	s.Helper()
	h := kit.Must(s.T)(s.x.TryLock(background, options...))
	synctest.Wait()
	return h
}

// refused has a client be refused x.
func (s *known) refused(c *holdfast.Client) *holdfast.LockedError {
	s.Helper()
	_, err := c.NewMutex("x").TryLock(background)
	var refused *holdfast.LockedError
	if !errors.As(err, &refused) {
		s.Fatal(err)
	}
	return refused
}

// holders are those that b is told of. It ends the test if there are none.
func (s *known) holders(l kit.Inspectable) []holdfast.Holder {
	s.Helper()
	state, err := l.Inspect(background)
	if err != nil || len(state.Holders) == 0 {
		s.Fatalf("%+v, %v", state, err)
	}
	return state.Holders
}

// The client's hash comes with the first acquire, lives for six minutes from the last time that it was
// written, which is every two minutes while the client holds something, and goes with the client.
func TestIdentityInRedis(t *testing.T) {
	fakeKnown(t, func(s *known) {
		began := time.Now()
		s.WantReply("0", "EXISTS", s.key)
		hold := s.hold()
		s.WantReply("billing v1.2.3 web-3 4711", "HMGET", s.key, "program", "version", "host", "pid")
		if ttl := s.PTTL(s.key); ttl != 6*time.Minute {
			s.Errorf("it lives for %v", ttl)
		}
		if who, err := s.a.Who(background, hold.Owner()); err != nil || !who.Since.Equal(began) {
			s.Errorf("since %v, %v; want %v", who.Since, err, began)
		}
		time.Sleep(100 * time.Minute)
		if ttl := s.PTTL(s.key); ttl < 4*time.Minute {
			s.Errorf("after 100 minutes it lives for %v", ttl)
		}
		s.Do("DEL", s.key) // as a failover may
		time.Sleep(2*time.Minute + time.Second)
		s.WantReply("1", "EXISTS", s.key)
		kit.OK(s.T, s.a.Close())
		time.Sleep(2 * time.Second) // until the turn of others is forgotten
		s.WantReply("", "KEYS", "*")
	})
}

// Nothing of a client is left when Close says so, also if a write of its hash was given up at the end and reaches Redis late.
func TestCloseTakesBackALateWrite(t *testing.T) {
	for _, late := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second} {
		fakeKnown(t, func(s *known) {
			kit.Next(s.da, "write", memdriver.Fault{DelayRequest: late})
			kit.OK(s.T, s.hold().Unlock())
			kit.OK(s.T, s.a.Close())
			time.Sleep(3 * time.Second)
			s.WantReply("", "KEYS", "*")
		})
	}
}

// Errors and states name the holder, and say for how long it has held the lock.
func TestHolderIsNamed(t *testing.T) {
	fakeKnown(t, func(s *known) {
		hold := s.hold()
		time.Sleep(500 * time.Millisecond)
		if e := s.refused(s.b); e.Who.PID != 4711 || e.HeldFor != 0 {
			s.Errorf("%+v", e)
		}
		time.Sleep(11500 * time.Millisecond)
		const held = 12 * time.Second
		want := `holdfast: "x": held by another owner: billing@web-3 pid 4711, for 12s, at most 29s more unless renewed`
		if e := s.refused(s.b); e.Error() != want || e.HeldFor != held || e.Holder != hold.Owner() {
			s.Errorf("%v\n%+v, want %s", e, e, want)
		}
		want = `holdfast: "x": held by another call of this client, for 12s, at most 29s more unless renewed; to nest in it, lock with the context of its hold`
		if e := s.refused(s.a); e.Error() != want || e.Who.Program != "billing" || e.HeldFor != held {
			s.Errorf("of its own client's: %+v", e) // without a question
		}
		x := s.b.NewMutex("x")
		if h := s.holders(x)[0]; h.Who.Host != "web-3" || h.HeldFor != held {
			s.Errorf("%+v", h)
		}
		_, err := x.Lock(background, holdfast.Wait(5*time.Second))
		var e *holdfast.LockedError
		if !errors.As(err, &e) || e.HeldFor != held+5*time.Second {
			s.Errorf("after a wait: %v", err)
		}

		// The next hold does not have what the one before had.
		kit.Unlock(s.T, hold)
		synctest.Wait()
		s.WantReply("5", "HLEN", s.key)
		hold = s.hold()
		if e := s.refused(s.b); e.HeldFor != 0 || e.Who.PID != 4711 {
			s.Errorf("%+v", e)
		}

		// What anybody has written there does no harm.
		s.Do("HSET", s.key, "program", "\x1b[2Jroot\n\u202e", "host", strings.Repeat("é", 5000))
		if said := s.refused(s.b).Error(); strings.ContainsAny(said, "\x1b\n\u202e") || len(said) > 400 || !strings.Contains(said, "[2Jroot@é") {
			s.Errorf("%q", said)
		}
		s.Do("DEL", s.key)
		s.Do("SET", s.key, "something else")
		if said := s.refused(s.b).Error(); !strings.Contains(said, hold.Owner().String()) {
			s.Errorf("%q", said)
		}
		s.Do("DEL", s.key)
		kit.Unlock(s.T, hold)
	})
}

// Every kind's holders are named: readers, writers, permits, parts of several locks.
func TestHoldersOfAllKindsAreNamed(t *testing.T) {
	fakeKnown(t, func(s *known) {
		permits, err := s.a.NewPermitSemaphore("permits", holdfast.Permits(5)).Acquire(background, 3)
		defer kit.Unlock(s.T, kit.Must(s.T)(permits, err))
		for _, l := range []holdfast.Locker{
			s.a.NewFairMutex("fair"), s.a.NewRWMutex("readers").RLocker(), s.a.NewRWMutex("writer"), holdfast.NewMultiLock(s.a.NewMutex("m1"), s.a.NewMutex("m2")),
		} {
			defer kit.Unlock(s.T, kit.Must(s.T)(l.Lock(background)))
		}
		time.Sleep(2 * time.Second)
		for name, l := range map[string]kit.Inspectable{
			"permits": s.b.NewPermitSemaphore("permits"), "fair": s.b.NewFairMutex("fair"), "readers": s.b.NewRWMutex("readers"),
			"writer": s.b.NewRWMutex("writer"), "m1": s.b.NewMutex("m1"),
		} {
			for _, h := range s.holders(l) {
				if h.Who.String() != "billing@web-3 pid 4711" || h.HeldFor != 2*time.Second {
					s.Errorf("%s: %+v", name, h)
				}
			}
		}
		_, err = holdfast.NewMultiLock(s.b.NewMutex("m1"), s.b.NewMutex("m2")).TryLock(background)
		if err == nil || !strings.Contains(err.Error(), "billing@web-3 pid 4711, for 2s") {
			s.Errorf("of several: %v", err)
		}
		for _, id := range permits.PermitIDs() {
			if raw, err := hex.DecodeString(id.String()); err != nil || len(raw) != 16 || !strings.HasPrefix(strings.ReplaceAll(s.a.ID(), "-", ""), id.String()[:16]) {
				s.Errorf("permit %s of client %s", id, s.a.ID())
			}
		}
		s.Do("DEL", "permits", "holdfast_calls:{permits}")
	})
}

// One owner that holds both sides of a read-write lock has held it since the first, until the last.
func TestIdentityOfBothSides(t *testing.T) {
	fakeKnown(t, func(s *known) {
		rw := s.a.NewRWMutex("rw")
		heldFor := func(want time.Duration) {
			s.Helper()
			synctest.Wait()
			for _, h := range s.holders(s.b.NewRWMutex("rw")) {
				if h.HeldFor != want {
					s.Errorf("%+v, want %v", h, want)
				}
			}
		}
		writes := kit.Must(s.T)(rw.Lock(background))
		time.Sleep(10 * time.Second)
		reads := kit.Must(s.T)(rw.RLock(writes.Context()))
		time.Sleep(2 * time.Second)
		heldFor(12 * time.Second)
		kit.Unlock(s.T, reads)
		heldFor(12 * time.Second)
		reads = kit.Must(s.T)(rw.RLock(writes.Context()))
		time.Sleep(2 * time.Second)
		kit.Unlock(s.T, writes)
		heldFor(14 * time.Second)
		kit.Unlock(s.T, reads)
		synctest.Wait()
		s.WantReply("5", "HLEN", s.key)
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

// closes closes a client whose hash cannot be deleted. Close says so if the hash is left, and may if its fate is not known.
func (s *known) closes(c *holdfast.Client) {
	s.Helper()
	err := c.Close()
	if left := s.Do("EXISTS", clientKey(c)) == "1"; left && err == nil || err != nil && !strings.Contains(err.Error(), clientKey(c)) {
		s.Errorf("the hash is left: %t; Close: %v", left, err)
	}
	s.Do("DEL", clientKey(c))
}

// No call but Close fails, nothing waits or is left without an end, if the hash cannot be written, read or deleted.
func TestIdentityIsNoCondition(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"no answer": {LoseRequest: true}, "no reply": {LoseReply: true},
		"refused":         {Refuse: driver.ServerError("NOPERM this user has no permissions", errors.New("NOPERM"))},
		"slot not served": {Refuse: driver.ServerError("CLUSTERDOWN Hash slot not served", errors.New("CLUSTERDOWN"))},
	} {
		t.Run(name, func(t *testing.T) {
			fakeKnown(t, func(s *known) {
				began := time.Now()
				within := func(what string, most time.Duration) {
					s.Helper()
					kit.Took(s.T, time.Since(began), 0, most, what+" took %v")
					began = time.Now()
				}
				for _, written := range []bool{true, false} { // before they suffer
					a, da := s.Known()
					if written {
						kit.Unlock(s.T, kit.Must(s.T)(a.NewMutex("x").TryLock(background)))
						synctest.Wait()
					}
					hashesSuffer(fault, da, s.db)
					hold := kit.Must(s.T)(a.NewMutex("x").TryLock(background))
					within("the acquire", 0)
					time.Sleep(2 * time.Second)
					began = time.Now()
					s.refused(s.b)
					within("the refusal", 250*time.Millisecond)
					if s.holders(s.b.NewMutex("x"))[0].Owner != hold.Owner() {
						s.Error("another owner")
					}
					within("Inspect", time.Second)
					kit.Unlock(s.T, hold)
					began = time.Now()
					s.closes(a)
					within("Close", 750*time.Millisecond)
				}
				s.closes(s.b)
				within("Close", 750*time.Millisecond)
			})
		})
	}
}

// What a client says outlives it for as long as a hold does.
func TestIdentityOfAMinHold(t *testing.T) {
	fakeKnown(t, func(s *known) {
		s.hold(holdfast.MinHold(time.Minute))
		kit.OK(s.T, s.a.Close())
		e := s.refused(s.b)
		s.WantReply("1", "EXISTS", s.key)
		if said := e.Error(); !strings.HasSuffix(said, ": kept by MinHold of "+e.Who.String()+", 1m0s more") {
			s.Errorf("it says %q", said)
		}
		time.Sleep(time.Minute + time.Second)
		s.WantReply("0", "EXISTS", s.key)
	})
}

// Redisson's owners have no such hash, and nobody asks for one. A client without an identity asks for none unless Who is called, and writes
// nothing of itself, also at the end of a long hold.
func TestIdentityIsNotAskedFor(t *testing.T) {
	fakeKnown(t, func(s *known) {
		off, doff := s.Client(holdfast.WithoutIdentity())
		n, noff := kit.Count(s.da), kit.Count(doff)
		const redisson = "285475da-9152-4c83-822a-67ee2f116a79:52"
		s.Do("HSET", "x", redisson, "1")
		s.Do("PEXPIRE", "x", "30000")
		if want, said := `holdfast: "x": held by another owner: `+redisson+", at most 30s more unless renewed", s.refused(s.a).Error(); said != want {
			s.Errorf("%v, want %s", said, want)
		}
		s.Do("DEL", "x")
		hold := s.hold()
		if said := s.refused(off).Error(); !strings.Contains(said, hold.Owner().String()) {
			s.Error(said)
		}
		state, err := off.NewMutex("x").Inspect(background)
		kit.OK(s.T, err)
		if who := state.Holders[0].Who; !who.IsZero() || noff.Of("read") != 0 {
			s.Errorf("Inspect has asked who it is: %v", who)
		}
		who, err := off.Who(background, hold.Owner())
		kit.OK(s.T, err, hold.Unlock())
		if who.Program != "billing" || who.Host != "web-3" {
			s.Errorf("Who: %v", who)
		}
		if own, err := off.Who(background, off.NewOwner()); !own.IsZero() || err != nil {
			s.Errorf("Who of itself: %v, %v", own, err)
		}
		hold = kit.Must(s.T)(off.NewMutex("x").TryLock(background))
		time.Sleep(25 * time.Minute)
		kit.Unlock(s.T, hold)
		synctest.Wait()
		s.WantReply("0", "EXISTS", clientKey(off))
		kit.OK(s.T, off.Close())
		if n.Of("read") != 0 || noff.Of("read") != 1 || noff.Of("write") != 0 || noff.Of("delete") != 0 {
			s.Errorf("%v and %v", n, noff)
		}
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
