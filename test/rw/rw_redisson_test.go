package rw

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// redisson is one of its threads.
const redisson = "7b0f2b1e-93a5-4f0e-8a43-5b8d7c9e1f00:42"

// Readers of both sides share, writers of both sides are alone, and whoever goes
// last leaves nothing.
func TestRedissonOnTheOtherSide(t *testing.T) {
	fake(t, func(s *stage) {
		j := kit.NewRedisson(s.World, "x", redisson)
		h := s.read(s.m)
		if !j.Read(time.Minute) || j.Write(time.Minute) {
			s.Error("beside our reader, theirs does not read, or their writer writes")
		}
		kit.Fails(s.T, holdfast.ErrLocked)(s.m.TryLock(background))
		s.Unlock(h)
		if got := j.ReadNoMore(); got != "1" {
			s.Errorf("their reader is not the last: %s", got)
		}
		s.WantReply("", "KEYS", "*")

		j.Read(time.Minute)
		h = s.read(s.m)
		if got := j.ReadNoMore(); got != "0" {
			s.Errorf("their reader is the last: %s", got)
		}
		s.wantTTL(30*time.Second, 30*time.Second)
		s.Unlock(h)
		s.WantReply("", "KEYS", "*")

		// Their writer's nested hold adds its lease; it goes on reading, and leaves
		// last or first.
		for _, last := range []bool{false, true} {
			for range 2 {
				if !j.Write(time.Minute) {
					t.Fatal("their writer does not get in")
				}
			}
			j.Read(10 * time.Second)
			kit.Fails(s.T, holdfast.ErrLocked)(s.m.RLocker().TryLock(background))
			j.WriteNoMore()
			j.WriteNoMore()
			h = s.read(s.m)
			if last {
				s.Unlock(h)
			}
			j.ReadNoMore()
			if !last {
				s.Unlock(h)
			}
			s.WantReply("", "KEYS", "*")
		}

		// Their reader crashes; ours is the last. It might live: see below.
		j.Read(time.Second)
		h = s.read(s.m)
		time.Sleep(2 * time.Second)
		s.Unlock(h)
		s.wantTTL(25*time.Second, 30*time.Second)
		h = s.lock(s.m, holdfast.Wait(35*time.Second))
		synctest.Wait() // who has waited for one of Redisson's listens no more, or this release is left to it
		s.Unlock(h)
		s.WantReply("", "KEYS", "*")
	})
}

// Redisson 3, if one client reads several locks, renews the locks, but the keys of
// the reads of one of them only. Its reader is one, and we are kept out, for as
// long as it renews the lock; our readers who leave do not end it.
func TestRedisson3ReadsWithoutKeys(t *testing.T) {
	fake(t, func(s *stage) {
		j := kit.NewRedisson(s.World, "x", redisson)
		reads := func() {
			j.Read(30 * time.Second)
			s.Do("DEL", j.Holds()+":1")
		}
		refused := func() {
			s.Helper()
			var locked *holdfast.LockedError
			if _, err := s.m.TryLock(background); !errors.As(err, &locked) {
				t.Fatalf("a writer beside it: %v", err)
			}
			if found, err := s.m.RLocker().Inspect(background); err != nil || found.Count(locked.Holder) == 0 {
				s.Errorf("refused because of %v: %+v, %v", locked, found, err)
			}
		}
		reads()
		h := s.read(s.m)
		for range 6 {
			time.Sleep(10 * time.Second)
			s.Do("PEXPIRE", "x", "30000") // its renewal
			refused()
		}
		s.Do("PEXPIRE", "x", "600000") // ours
		s.Unlock(h)
		s.wantTTL(30*time.Second, 30*time.Second)
		refused()
		found, err := s.m.RLocker().Inspect(background)
		if err != nil || len(found.Holders) != 1 || found.Holders[0].Owner.String() != j.Owner {
			s.Errorf("%+v, %v", found, err)
		}
		if got := j.ReadNoMore(); got != "1" {
			s.Errorf("it was not the last reader: %s", got)
		}
		s.Unlock(s.lock(s.m))
		// If it has crashed, the lock ends with what it was last renewed for.
		reads()
		s.Unlock(s.lock(s.m, holdfast.Wait(31*time.Second)))
	}, holdfast.WithLease(10*time.Minute))
}

// S8 is Redisson's own: its renewal of a read shortens the lock under ours, and
// that of its version 3 our hold's key, too. We set that right in time, for a fixed
// lease as well, whether Redisson's reader leaves or dies.
func TestS8_RedissonsRenewalIsSetRight(t *testing.T) {
	const long = 10 * time.Minute
	for name, take := range map[string]func(s *stage) []*holdfast.Hold{
		"fixed": func(s *stage) []*holdfast.Hold { return []*holdfast.Hold{s.read(s.m, holdfast.FixedLease(long))} },
		"extended": func(s *stage) []*holdfast.Hold {
			h := s.read(s.m)
			kit.OK(s.T, h.Extend(background, long))
			return []*holdfast.Hold{h}
		},
		"fixed and renewed": func(s *stage) []*holdfast.Hold {
			h := s.read(s.m, holdfast.FixedLease(long))
			return []*holdfast.Hold{s.nested(h), h}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				holds := take(s)
				h := holds[0]
				// A reader of Redisson's shortens the lock and the hold's key, and dies.
				key := kit.ReadHold("x", h.Owner().String(), 1)
				j := kit.NewRedisson(s.World, "x", redisson)
				j.Read(30 * time.Second)
				for range 6 {
					time.Sleep(9 * time.Second)
					j.RenewReads()
					s.Do("PEXPIRE", key, "30000")
				}
				s.wantTTL(30*time.Second, 30*time.Second)
				for range 2 {
					time.Sleep(time.Minute)
					promised := time.Until(h.Deadline())
					for _, k := range []string{"x", key} {
						if ttl := s.PTTL(k); ttl < promised || promised < 6*time.Minute {
							s.Errorf("%s lives for %v, promised are %v", k, ttl, promised)
						}
					}
				}
				kit.Fails(s.T, holdfast.ErrLocked)(s.m.TryLock(background))
				kit.OK(s.T, context.Cause(h.Context()))
				s.Unlock(holds...)
				time.Sleep(31 * time.Second) // Redisson's reader might have lived
			})
		})
	}
}
