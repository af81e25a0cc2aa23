package rw

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// A downgrade lets no writer in, whatever happens to its messages, and leaves one read
// hold with the lease of the write hold.
func TestDowngradeUnderFaults(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, step := range []string{"acquire", "release"} {
			t.Run(name+"/"+step, func(t *testing.T) {
				fake(t, func(s *stage) {
					parent, cancel := context.WithCancel(background)
					defer cancel()
					write := s.Must(s.m.Lock(parent, holdfast.RenewedLease(10*time.Second)))
					wrote := kit.Waiting(s.T, s.other, background)
					time.Sleep(time.Second)
					kit.Next(s.d, step, fault)
					read := s.Must(s.m.Downgrade(write))
					select {
					case <-wrote:
						s.Error("a writer got in")
					case <-time.After(time.Minute): // it is renewed
					}
					found, err := s.m.Inspect(background)
					if err != nil || len(found.Holders) != 1 || found.Holders[0] != (holdfast.Holder{
						Owner: write.Owner(), Mode: holdfast.ModeRead, Count: 1, TTL: found.Holders[0].TTL,
					}) || found.Holders[0].TTL > 10*time.Second {
						s.Errorf("%+v, %v", found, err)
					}
					if _, ok := holdfast.OwnerFrom(read.Context(), s.c.NewMutex("y")); ok {
						s.Error("its context speaks for another lock")
					}
					cancel()
					if read.Context().Err() == nil {
						s.Error("its context does not end with the one that the writer's came from")
					}
					s.Unlock(read)
					s.Unlock(<-wrote)
				})
			})
		}
	}
}

// What is no write hold of the lock is refused, and one that is lost is no read hold.
func TestDowngradeRefused(t *testing.T) {
	fake(t, func(s *stage) {
		refuses := func(h *holdfast.Hold, target error) {
			s.Helper()
			kit.Fails(s.T, target)(s.m.Downgrade(h))
		}
		refuses(nil, holdfast.ErrInvalid)
		for _, h := range []*holdfast.Hold{s.Must(s.c.NewMutex("y").Lock(background)), s.read(s.m)} {
			refuses(h, holdfast.ErrInvalid)
			kit.OK(s.T, h.Context().Err())
			s.Unlock(h)
		}
		write := s.lock(s.m)
		s.Unlock(write)
		refuses(write, holdfast.ErrNotHeld)

		// It is taken away, and another writes, before its holder has noticed.
		write = s.lock(s.m, holdfast.FixedLease(time.Hour))
		if did, err := s.other.ForceUnlock(background); !did || err != nil {
			t.Fatal(did, err)
		}
		s.Unlock(s.lock(s.other))
		refuses(write, holdfast.ErrLost)

		// Redis does not answer: it goes on writing.
		write = s.lock(s.m)
		kit.All(s.d, kit.LostRequest)
		_, err := s.m.Downgrade(write)
		var backend *holdfast.BackendError
		if !errors.As(err, &backend) {
			s.Error(err)
		}
		s.d.SetFaults(nil)
		kit.OK(s.T, context.Cause(write.Context()))
		s.Unlock(write)
	})
}

// A writer that holds twice goes on writing by the other hold.
func TestDowngradeOfANestedHold(t *testing.T) {
	fake(t, func(s *stage) {
		outer := s.lock(s.m)
		inner := s.Must(s.m.Lock(outer.Context()))
		read := s.Must(s.m.Downgrade(inner))
		found, err := s.m.Inspect(background)
		if err != nil || found.Count(outer.Owner()) != 2 || len(found.Holders) != 2 {
			s.Errorf("%+v, %v", found, err)
		}
		s.Unlock(outer)
		if read.Context().Err() == nil {
			s.Error("it was acquired under the outer hold's context, which has ended")
		}
		s.Unlock(read)
	})
}

// Another has written, and the release's first send is lost, so its answer does not tell
// what happened: the read hold must not be granted at all.
func TestDowngradeAfterAnotherWrote(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m, holdfast.FixedLease(time.Hour))
		s.Do("DEL", "x")
		s.Unlock(s.lock(s.other))
		kit.Next(s.d, "release", kit.LostRequest)
		kit.Fails(s.T, holdfast.ErrLost)(s.m.Downgrade(write))
		_ = write.Unlock()
	})
}

// TestDowngradeBesideALostRead: a read hold of the owner is lost, not the write hold.
func TestDowngradeBesideALostRead(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true}) // so that it is unknown for longer what may stand
		lost := s.nested(write, holdfast.FixedLease(3*time.Second))
		<-lost.Context().Done()
		synctest.Wait()
		s.Unlock(s.Must(s.m.Downgrade(write)))
		kit.WantError(s.T, lost.Unlock(), holdfast.ErrLost)
	})
}

// TestDowngradeAnsweredTooLate to be read by: the write hold, which was extended, stands.
func TestDowngradeAnsweredTooLate(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m, holdfast.FixedLease(time.Second))
		kit.OK(s.T, write.Extend(background, time.Minute))
		kit.Next(s.d, "acquire", memdriver.Fault{DelayReply: 1200 * time.Millisecond})
		_, err := s.m.Downgrade(write)
		var late *holdfast.BackendError
		if !errors.As(err, &late) || errors.Is(err, holdfast.ErrLost) {
			s.Errorf("the write hold stands, but: %v", err)
		}
		s.Unlock(write)
		time.Sleep(time.Minute)
	})
}

// TestDowngradeUnderAContextThatHasEnded: what its context ended with is nothing that has befallen the write hold.
func TestDowngradeUnderAContextThatHasEnded(t *testing.T) {
	causes := map[string]error{
		"lost": &holdfast.LostError{Name: "other"}, "closed": holdfast.ErrClosed, "not held": holdfast.ErrNotHeld,
		"invalid":   holdfast.ErrInvalid,
		"no answer": &holdfast.BackendError{Op: "acquire", Name: "other", Err: errors.New("no answer")},
		"none":      nil,
	}
	for name, cause := range causes {
		for _, delay := range []time.Duration{0, time.Second} {
			t.Run(name+"/"+delay.String(), func(t *testing.T) {
				fake(t, func(s *stage) {
					ctx, end := context.WithCancelCause(background)
					write := s.Must(s.m.Lock(ctx))
					kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 2 * time.Second})
					time.AfterFunc(delay, func() { end(cause) })
					synctest.Wait()
					_, err := s.m.Downgrade(write)
					kit.WantError(s.T, err, context.Canceled)
					for _, target := range []error{
						holdfast.ErrLost, holdfast.ErrNotHeld, holdfast.ErrClosed, holdfast.ErrInvalid,
					} {
						if errors.Is(err, target) {
							s.Errorf("it says that the write hold is gone, or is none: %v", err)
						}
					}
					if backend := new(holdfast.BackendError); errors.As(err, &backend) {
						s.Errorf("it says that Redis did not answer: %v", err)
					}
					s.Unlock(write)
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// WithMaxHold counts what was held until then, too, for what goes on reading, and for what is read while the owner writes.
// That less is left of it than when it was called is no reason to refuse a fixed lease.
func TestBothSidesKeepToMaxHold(t *testing.T) {
	fixed := holdfast.FixedLease(50 * time.Second)
	write := func(s *stage, options ...holdfast.LockOption) *holdfast.Hold {
		h := s.lock(s.m, options...)
		time.Sleep(40 * time.Second)
		return h
	}
	for name, hold := range map[string]func(s *stage) *holdfast.Hold{
		"Downgrade":                  func(s *stage) *holdfast.Hold { return s.Must(s.m.Downgrade(write(s))) },
		"Downgrade of a fixed lease": func(s *stage) *holdfast.Hold { return s.Must(s.m.Downgrade(write(s, fixed))) },
		"RLock":                      func(s *stage) *holdfast.Hold { return s.nested(write(s)) },
		"RLock in a fixed lease":     func(s *stage) *holdfast.Hold { return s.nested(write(s, fixed)) },
		"Downgrade that has to wait": func(s *stage) *holdfast.Hold {
			h := write(s, fixed)
			before := s.Must(s.m.RLock(h.Context(), holdfast.FixedLease(5*time.Second)))
			kit.Next(s.d, "release", memdriver.Fault{DelayRequest: 5 * time.Millisecond})
			go func() { _ = before.Unlock() }()
			synctest.Wait()
			return s.Must(s.m.Downgrade(h))
		},
		// The part that reads is nested in the one that writes, which is a moment older.
		"both as one": func(s *stage) *holdfast.Hold {
			kit.All(s.d, memdriver.Fault{DelayReply: time.Millisecond})
			return s.Must(holdfast.NewMultiLock(s.m, s.m.RLocker()).Lock(background, holdfast.FixedLease(time.Minute)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				start := time.Now()
				s.lostAfter(hold(s), start, 58*time.Second, time.Minute)
			}, holdfast.WithMaxHold(time.Minute))
		})
	}
}
