package rw

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Readers of both sides share, writers of both sides are alone, and whoever goes
// last leaves nothing.
func TestRedissonOnTheOtherSide(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		j := kit.NewRedisson(w, "x", "c0ffee:1")
		h := kit.Must(t)(m.RLocker().Lock(background))
		if !j.Read(time.Minute) || j.Write(time.Minute) {
			t.Error("beside our reader, theirs does not read, or their writer writes")
		}
		kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background))
		kit.Unlock(t, h)
		if got := j.ReadNoMore(); got != "1" {
			t.Errorf("their reader is not the last: %s", got)
		}
		w.WantReply("", "KEYS", "*")

		j.Read(time.Minute)
		h = kit.Must(t)(m.RLocker().Lock(background))
		if got := j.ReadNoMore(); got != "0" {
			t.Errorf("their reader is the last: %s", got)
		}
		if ttl := w.PTTL("x"); ttl != 30*time.Second {
			t.Errorf("after their reader has left the lock lives for %v", ttl)
		}
		kit.Unlock(t, h)
		w.WantReply("", "KEYS", "*")

		// Their writer's nested hold adds its lease; it goes on reading, and leaves
		// last or first.
		for _, last := range []bool{false, true} {
			in := j.Write(time.Minute)
			in = in && j.Write(time.Minute) // once more
			if !in || !j.Read(10*time.Second) {
				t.Fatal("their writer does not get in")
			}
			kit.Fails(t, holdfast.ErrLocked)(m.RLocker().TryLock(background))
			j.WriteNoMore()
			j.WriteNoMore()
			h = kit.Must(t)(m.RLocker().Lock(background))
			if last {
				kit.Unlock(t, h)
				j.ReadNoMore()
			} else {
				j.ReadNoMore()
				kit.Unlock(t, h)
			}
			w.WantReply("", "KEYS", "*")
		}

		// Their reader crashes; ours is the last. It might live: see below.
		j.Read(time.Second)
		h = kit.Must(t)(m.RLocker().Lock(background))
		time.Sleep(2 * time.Second)
		kit.Unlock(t, h)
		if ttl := w.PTTL("x"); ttl < 25*time.Second || ttl > 30*time.Second {
			t.Errorf("their reader may live for %v", ttl)
		}
		h = kit.Must(t)(m.Lock(background, holdfast.Wait(35*time.Second)))
		synctest.Wait() // who has waited for one of Redisson's listens no more, or this release is left to it
		kit.Unlock(t, h)
		w.WantReply("", "KEYS", "*")
	})
}

// Redisson 3, if one client reads several locks, renews the locks, but the keys of
// the reads of one of them only. Its reader is one, and we are kept out, for as
// long as it renews the lock; our readers who leave do not end it.
func TestRedisson3ReadsWithoutKeys(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client(holdfast.WithLease(10 * time.Minute))
		m := c.NewRWMutex("x")
		j := kit.NewRedisson(w, "x", "7b0f2b1e-93a5-4f0e-8a43-5b8d7c9e1f00:42")
		j.Read(30 * time.Second)
		w.Do("DEL", j.Holds()+":1")
		h := kit.Must(t)(m.RLocker().Lock(background))
		for range 6 {
			time.Sleep(10 * time.Second)
			w.Do("PEXPIRE", "x", "30000") // its renewal
			kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background))
		}
		w.Do("PEXPIRE", "x", "600000") // ours
		kit.Unlock(t, h)
		if ttl := w.PTTL("x"); ttl != 30*time.Second {
			t.Errorf("without ours it lives for %v", ttl)
		}
		var locked *holdfast.LockedError
		beside, err := m.TryLock(background)
		if err == nil {
			kit.Unlock(t, beside)
			t.Fatal("a writer beside it")
		}
		if !errors.As(err, &locked) || locked.Holder.String() != j.Owner {
			t.Errorf("refused because of %v", err)
		}
		found, err := m.RLocker().Inspect(background)
		if err != nil || len(found.Holders) != 1 || found.Holders[0].Owner.String() != j.Owner {
			t.Errorf("%+v, %v", found, err)
		}
		if got := j.ReadNoMore(); got != "1" {
			t.Errorf("it was not the last reader: %s", got)
		}
		kit.Unlock(t, kit.Must(t)(m.Lock(background)))
		// If it has crashed, the lock ends with what it was last renewed for.
		j.Read(30 * time.Second)
		w.Do("DEL", j.Holds()+":1")
		kit.Unlock(t, kit.Must(t)(m.Lock(background, holdfast.Wait(31*time.Second))))
	})
}

// S8 is Redisson's own: its renewal of a read shortens the lock under ours, and
// that of its version 3 our hold's key, too. We set that right in time, for a fixed
// lease as well, whether Redisson's reader leaves or dies.
func TestS8_RedissonsRenewalIsSetRight(t *testing.T) {
	const long = 10 * time.Minute
	for name, take := range map[string]func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold{
		"fixed": func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold {
			return []*holdfast.Hold{kit.Must(t)(m.RLocker().Lock(background, holdfast.FixedLease(long)))}
		},
		"extended": func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold {
			h := kit.Must(t)(m.RLocker().Lock(background))
			if err := h.Extend(background, long); err != nil {
				t.Error(err)
			}
			return []*holdfast.Hold{h}
		},
		"fixed and renewed": func(t *testing.T, m *holdfast.RWMutex) []*holdfast.Hold {
			h := kit.Must(t)(m.RLocker().Lock(background, holdfast.FixedLease(long)))
			return []*holdfast.Hold{kit.Must(t)(m.RLocker().Lock(h.Context())), h}
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				m := c.NewRWMutex("x")
				holds := take(t, m)
				setRight(t, w, m, holds[0])
				for _, h := range holds {
					kit.Unlock(t, h)
				}
				time.Sleep(31 * time.Second) // Redisson's reader might have lived
			})
		})
	}
}

// setRight has a reader of Redisson's shorten the lock and the hold's key, and die.
func setRight(t *testing.T, w *kit.World, m *holdfast.RWMutex, h *holdfast.Hold) {
	t.Helper()
	key := protocol.ReadPrefix("x") + h.Owner().String() + ":rwlock_timeout:1"
	j := kit.NewRedisson(w, "x", "7b0f2b1e-93a5-4f0e-8a43-5b8d7c9e1f00:42")
	j.Read(30 * time.Second)
	for range 6 {
		time.Sleep(9 * time.Second)
		j.RenewReads()
		w.Do("PEXPIRE", key, "30000")
	}
	if ttl := w.PTTL("x"); ttl != 30*time.Second {
		t.Fatalf("their renewal leaves %v", ttl)
	}
	for range 2 {
		time.Sleep(time.Minute)
		promised := time.Until(h.Deadline())
		for _, k := range []string{"x", key} {
			if ttl := w.PTTL(k); ttl < promised || promised < 6*time.Minute {
				t.Errorf("%s lives for %v, promised are %v", k, ttl, promised)
			}
		}
	}
	kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background))
	if err := context.Cause(h.Context()); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
}
