package rw

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A downgrade lets no writer in, whatever happens to its messages, and leaves one read
// hold with the lease of the write hold.
func TestDowngradeUnderFaults(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, step := range []string{"acquire", "release"} {
			t.Run(name+"/"+step, func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					other, _ := w.Client()
					m := c.NewRWMutex("x")
					parent, cancel := context.WithCancel(background)
					defer cancel()
					write := kit.Must(t)(m.Lock(parent, holdfast.RenewedLease(10*time.Second)))
					wrote := make(chan *holdfast.Hold)
					go func() { wrote <- kit.Must(t)(other.NewRWMutex("x").Lock(background)) }()
					time.Sleep(time.Second)
					kit.Once(d, step, fault)
					read := kit.Must(t)(m.Downgrade(write))
					select {
					case <-wrote:
						t.Error("a writer got in")
					case <-time.After(time.Minute): // it is renewed
					}
					found, err := m.Inspect(background)
					if err != nil || len(found.Holders) != 1 || found.Holders[0] != (holdfast.Holder{
						Owner: write.Owner(), Mode: holdfast.ModeRead, Count: 1, TTL: found.Holders[0].TTL,
					}) || found.Holders[0].TTL > 10*time.Second {
						t.Errorf("%+v, %v", found, err)
					}
					if _, ok := holdfast.OwnerFrom(read.Context(), c.NewMutex("y")); ok {
						t.Error("its context speaks for another lock")
					}
					cancel()
					if read.Context().Err() == nil {
						t.Error("its context does not end with the one that the writer's came from")
					}
					kit.Unlock(t, read)
					kit.Unlock(t, <-wrote)
				})
			})
		}
	}
}

// What is no write hold of the lock is refused, and one that is lost is no read hold.
func TestDowngradeRefused(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		tool, _ := w.Client()
		m := c.NewRWMutex("x")
		plain, read := kit.Must(t)(c.NewMutex("y").Lock(background)), kit.Must(t)(m.RLock(background))
		for _, h := range []*holdfast.Hold{plain, read} {
			kit.Fails(t, holdfast.ErrInvalid)(m.Downgrade(h))
			if err := h.Context().Err(); err != nil {
				t.Error(err)
			}
			kit.Unlock(t, h)
		}
		write := kit.Must(t)(m.Lock(background))
		kit.Unlock(t, write)
		kit.Fails(t, holdfast.ErrNotHeld)(m.Downgrade(write))

		// It is taken away, and another writes, before its holder has noticed.
		write = kit.Must(t)(m.Lock(background, holdfast.FixedLease(time.Hour)))
		if did, err := tool.NewRWMutex("x").ForceUnlock(background); !did || err != nil {
			t.Fatal(did, err)
		}
		kit.Unlock(t, kit.Must(t)(tool.NewRWMutex("x").Lock(background)))
		kit.Fails(t, holdfast.ErrLost)(m.Downgrade(write))

		// Redis does not answer: it goes on writing.
		write = kit.Must(t)(m.Lock(background))
		kit.Silent(d, memdriver.Fault{LoseRequest: true})
		_, err := m.Downgrade(write)
		var backend *holdfast.BackendError
		if !errors.As(err, &backend) {
			t.Error(err)
		}
		d.SetFaults(nil)
		if err := write.Context().Err(); err != nil {
			t.Error(context.Cause(write.Context()))
		}
		kit.Unlock(t, write)
	})
}

// A writer that holds twice goes on writing by the other hold.
func TestDowngradeOfANestedHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		outer := kit.Must(t)(m.Lock(background))
		inner := kit.Must(t)(m.Lock(outer.Context()))
		read := kit.Must(t)(m.Downgrade(inner))
		found, err := m.Inspect(background)
		if err != nil || found.Count(outer.Owner()) != 2 || len(found.Holders) != 2 {
			t.Errorf("%+v, %v", found, err)
		}
		kit.Unlock(t, outer)
		if read.Context().Err() == nil {
			t.Error("it was acquired under the outer hold's context, which has ended")
		}
		kit.Unlock(t, read)
	})
}

// Another has written, and the release's first send is lost, so its answer does not tell
// what happened: the read hold must not be granted at all.
func TestDowngradeAfterAnotherWrote(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background, holdfast.FixedLease(time.Hour)))
		w.Do("DEL", "x")
		kit.Unlock(t, kit.Must(t)(other.NewRWMutex("x").Lock(background)))
		kit.Once(d, "release", memdriver.Fault{LoseRequest: true})
		kit.Fails(t, holdfast.ErrLost)(m.Downgrade(write))
		_ = write.Unlock()
		kit.Fails(t, holdfast.ErrInvalid)(m.Downgrade(nil))
	})
}

// TestDowngradeBesideALostRead: a read hold of the owner is lost, not the write hold.
func TestDowngradeBesideALostRead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{LoseReply: true}) // so that it is unknown for longer what may stand
		lost := kit.Must(t)(m.RLock(context.WithoutCancel(write.Context()), holdfast.FixedLease(3*time.Second)))
		<-lost.Context().Done()
		synctest.Wait()
		kit.Unlock(t, kit.Must(t)(m.Downgrade(write)))
		kit.WantError(t, lost.Unlock(), holdfast.ErrLost)
	})
}

// TestDowngradeAnsweredTooLate to be read by: the write hold, which was extended, stands.
func TestDowngradeAnsweredTooLate(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background, holdfast.FixedLease(time.Second)))
		kit.OK(t, write.Extend(background, time.Minute))
		kit.Once(d, "acquire", memdriver.Fault{DelayReply: 1200 * time.Millisecond})
		_, err := m.Downgrade(write)
		var late *holdfast.BackendError
		if !errors.As(err, &late) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("the write hold stands, but: %v", err)
		}
		kit.Unlock(t, write)
		time.Sleep(time.Minute)
	})
}

// TestDowngradeUnderAContextThatHasEnded: what its context ended with is nothing that has befallen the write hold.
func TestDowngradeUnderAContextThatHasEnded(t *testing.T) {
	causes := map[string]error{
		"lost": &holdfast.LostError{Name: "other"}, "closed": holdfast.ErrClosed, "not held": holdfast.ErrNotHeld,
		"invalid": holdfast.ErrInvalid, "no answer": &holdfast.BackendError{Op: "acquire", Name: "other", Err: errors.New("no answer")},
		"none": nil,
	}
	for name, cause := range causes {
		for _, delay := range []time.Duration{0, time.Second} {
			t.Run(name+"/"+delay.String(), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					m := c.NewRWMutex("x")
					ctx, end := context.WithCancelCause(background)
					write := kit.Must(t)(m.Lock(ctx))
					kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 2 * time.Second})
					time.AfterFunc(delay, func() { end(cause) })
					synctest.Wait()
					_, err := m.Downgrade(write)
					kit.WantError(t, err, context.Canceled)
					for _, target := range []error{holdfast.ErrLost, holdfast.ErrNotHeld, holdfast.ErrClosed, holdfast.ErrInvalid} {
						if errors.Is(err, target) {
							t.Errorf("it says that the write hold is gone, or is none: %v", err)
						}
					}
					if backend := new(holdfast.BackendError); errors.As(err, &backend) {
						t.Errorf("it says that Redis did not answer: %v", err)
					}
					kit.Unlock(t, write)
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// TestDowngradeKeepsToMaxHold: what was held until then counts, too, and so it does for what is read while the owner writes.
func TestDowngradeKeepsToMaxHold(t *testing.T) {
	reads := map[string]func(m *holdfast.RWMutex, write *holdfast.Hold) (*holdfast.Hold, error){
		"Downgrade": (*holdfast.RWMutex).Downgrade,
		"RLock": func(m *holdfast.RWMutex, write *holdfast.Hold) (*holdfast.Hold, error) {
			return m.RLock(context.WithoutCancel(write.Context()))
		},
	}
	leases := map[string][]holdfast.LockOption{"renewed": nil, "fixed": {holdfast.FixedLease(50 * time.Second)}}
	for name, read := range reads {
		for lease, options := range leases {
			t.Run(name+"/"+lease, func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, _ := w.Client(holdfast.WithMaxHold(time.Minute))
					m, start := c.NewRWMutex("x"), time.Now()
					write := kit.Must(t)(m.Lock(background, options...))
					time.Sleep(40 * time.Second)
					h := kit.Must(t)(read(m, write))
					kit.Took(t, kit.LostAt(t, h, start), 58*time.Second, time.Minute, "lost after %v")
					_, _ = h.Unlock(), write.Unlock() // they are lost
				})
			})
		}
	}
}

// TestDowngradeOfAFixedLeaseThatHasToWait: less is left of WithMaxHold than when it was called. That is no reason to refuse it.
func TestDowngradeOfAFixedLeaseThatHasToWait(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithMaxHold(time.Minute))
		m, start := c.NewRWMutex("x"), time.Now()
		write := kit.Must(t)(m.Lock(background, holdfast.FixedLease(50*time.Second)))
		time.Sleep(40 * time.Second)
		before := kit.Must(t)(m.RLock(write.Context(), holdfast.FixedLease(5*time.Second)))
		kit.Once(d, "release", memdriver.Fault{DelayRequest: 5 * time.Millisecond})
		go func() { _ = before.Unlock() }()
		synctest.Wait()
		read := kit.Must(t)(m.Downgrade(write))
		kit.Took(t, kit.LostAt(t, read, start), 58*time.Second, time.Minute, "lost after %v")
		_ = read.Unlock()
	})
}

// TestReadWhileItsWriteIsUnlocked: an owner's changes come one after another, so the write stands until the read is granted. The
// read was nested in it, and ends when WithMaxHold would have ended the write.
func TestReadWhileItsWriteIsUnlocked(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithMaxHold(10 * time.Second))
		other, _ := w.Client()
		m, ctx := c.NewRWMutex("x"), holdfast.WithOwner(background, c.NewOwner())
		write := kit.Must(t)(m.Lock(ctx))
		time.Sleep(9 * time.Second)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		got := kit.Begin(func() (*holdfast.Hold, error) { return m.RLock(ctx) })
		theirs := kit.Begin(func() (*holdfast.Hold, error) { return other.NewRWMutex("x").Lock(background) })
		kit.Unlock(t, write)
		read := <-got
		kit.OK(t, read.Err)
		if took := kit.LostAt(t, read.Hold, time.Now()); took > time.Second {
			t.Errorf("lost after %v: %v", took, context.Cause(read.Hold.Context()))
		}
		_ = read.Hold.Unlock()
		kit.Unlock(t, (<-theirs).Hold)
	})
}

// TestMultiLockOfBothSidesWithMaxHold: the part that reads is nested in the one that writes, which is a moment older.
func TestMultiLockOfBothSidesWithMaxHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(holdfast.WithMaxHold(time.Minute))
		d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: time.Millisecond} })
		m, start := c.NewRWMutex("x"), time.Now()
		h := kit.Must(t)(holdfast.NewMultiLock(m, m.RLocker()).Lock(background, holdfast.FixedLease(time.Minute)))
		kit.Took(t, kit.LostAt(t, h, start), 58*time.Second, time.Minute, "lost after %v")
		_ = h.Unlock()
	})
}
