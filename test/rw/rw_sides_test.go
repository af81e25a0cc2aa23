package rw

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One owner writes, and reads with a longer lease, which both have one key for. When the
// write hold is lost, the key goes on; the write hold in it must not.

// TestLostWriteBesideALongerRead: the lock is others' as far as it can be as soon as the write hold is over.
func TestLostWriteBesideALongerRead(t *testing.T) {
	for name, run := range map[string]func(s *stage, write, read *holdfast.Hold){
		"others read": func(s *stage, write, read *holdfast.Hold) {
			reader := s.read(s.other, holdfast.Wait(20*time.Second))
			kit.WantLost(s.T, write)
			kit.WantError(s.T, write.Unlock(), holdfast.ErrLost)
			s.Unlock(reader, read)
		},
		"others write, once the read hold has been given back": func(s *stage, write, read *holdfast.Hold) {
			s.Unlock(read)
			s.Unlock(s.lock(s.other, holdfast.Wait(20*time.Second)))
			kit.WantError(s.T, write.Unlock(), holdfast.ErrLost)
		},
		"the read hold is handed over": func(s *stage, _, read *holdfast.Hold) {
			time.Sleep(10 * time.Second)
			owner, err := read.Detach()
			kit.OK(s.T, err)
			s.Unlock(s.Must(s.other.RLocker().Adopt(background, owner)))
		},
	} {
		for attempt, answered := range map[string]bool{"answered": true, "unanswered": false} {
			t.Run(name+"/"+attempt, func(t *testing.T) {
				fake(t, func(s *stage) {
					if !answered { // and so it is unknown for longer what may stand
						kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true})
					}
					write := s.lock(s.m, holdfast.FixedLease(2*time.Second))
					run(s, write, s.nested(write, holdfast.FixedLease(10*time.Minute)))
					time.Sleep(2 * time.Second) // for which it may be known whose turn it was
					s.WantReply("", "KEYS", "*x*")
				})
			})
		}
	}
}

// refusing has Redis refuse every call with an error of its own.
func refusing(code string) memdriver.Fault {
	return memdriver.Fault{Refuse: driver.ServerError(code+" no", errors.New(code+" no"))}
}

// TestRefusedReleaseBesideARead: Redis refuses for a while to give back what is held for writing, or is not reached; it
// does not end by itself while the owner reads.
func TestRefusedReleaseBesideARead(t *testing.T) {
	for code, fault := range map[string]memdriver.Fault{
		"NOPERM": refusing("NOPERM"), "READONLY": refusing("READONLY"), "ERR": refusing("ERR"), "partition": kit.LostRequest,
	} {
		for way, unlocked := range map[string]bool{"unlocked": true, "lost": false} {
			t.Run(code+" "+way, func(t *testing.T) {
				fake(t, func(s *stage) {
					write := s.lock(s.m, holdfast.FixedLease(10*time.Second))
					read := s.nested(write)
					if unlocked {
						kit.All(s.d, fault)
						s.refused(write)
					} else {
						time.Sleep(9 * time.Second)
						kit.All(s.d, fault)
						<-write.Context().Done()
					}
					time.Sleep(time.Second)
					s.d.SetFaults(nil)
					s.Unlock(s.read(s.other, holdfast.Wait(15*time.Second)))
					kit.OK(s.T, context.Cause(read.Context()))
					s.Unlock(read)
				})
			})
		}
	}
}

// TestCloseWhileAReleaseIsRefused: Close does not wait until Redis takes it back.
func TestCloseWhileAReleaseIsRefused(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		s.nested(write)
		kit.All(s.d, refusing("NOPERM"))
		s.refused(write)
		start := time.Now()
		_ = s.c.Close()
		kit.Took(s.T, time.Since(start), 0, 6*time.Second, "Close took %v") // the client's timeout
		s.Do("FLUSHALL")                                                    // what Redis has kept
	})
}

// TestDetachOfBothSides: neither waits for the other until the timeout.
func TestDetachOfBothSides(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true})
		read := s.nested(write)
		start, done := time.Now(), make(chan error)
		go func() {
			_, err := read.Detach()
			done <- err
		}()
		synctest.Wait()
		_, err := write.Detach()
		kit.WantError(s.T, err, holdfast.ErrReentrant)
		kit.WantError(s.T, <-done, holdfast.ErrReentrant)
		kit.Took(s.T, time.Since(start), 0, time.Second, "it took %v")
		s.Unlock(read, write)
	})
}

// TestOneOwnerAsksForBothSides: under one owner, one goroutine stands in line to read, behind a reader of another
// owner, and another one writes, and reads in that. Whichever begins to wait first, none waits for the other for ever.
func TestOneOwnerAsksForBothSides(t *testing.T) {
	for name, readsFirst := range map[string]bool{"reads first": true, "writes first": false} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(s *stage) {
				m := s.c.NewRWMutex("x", holdfast.WritersFirst())
				ctx, wait := holdfast.WithOwner(background, s.c.NewOwner()), holdfast.Wait(time.Hour)
				read := func(ctx context.Context) error {
					h, err := m.RLock(ctx, wait)
					if err != nil {
						return err
					}
					time.Sleep(time.Second)
					return h.Unlock()
				}
				write := func() error {
					h, err := m.Lock(ctx, wait)
					if errors.Is(err, holdfast.ErrReentrant) { // it reads already
						return nil
					}
					if err != nil {
						return err
					}
					return errors.Join(read(h.Context()), h.Unlock())
				}
				calls := []func() error{func() error { return read(background) }, func() error { return read(ctx) }, write}
				if !readsFirst {
					calls[1], calls[2] = calls[2], calls[1]
				}
				theirs := s.lock(s.other)
				done := make(chan error, len(calls))
				for _, call := range calls {
					go func() { done <- call() }()
					synctest.Wait()
				}
				start := time.Now()
				s.Unlock(theirs)
				for range calls {
					kit.OK(s.T, <-done)
				}
				kit.Took(s.T, time.Since(start), 0, 10*time.Second, "all have ended after %v")
			})
		})
	}
}

// Who writes may read as well. If Redis does not know the write hold any more, and nobody here has heard of that
// yet, a read hold is not granted in silence: see nesting in internal/engine/acquire.go.

// TestReadNestedInALostWrite: by every way in which the owner of the write hold may be said, also while the client
// shuts down.
func TestReadNestedInALostWrite(t *testing.T) {
	alone := func(s *stage) *holdfast.Hold { return s.lock(s.m) }
	read := func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) { return s.m.RLock(write.Context()) }
	for name, row := range map[string]struct {
		write func(s *stage) *holdfast.Hold
		read  func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error)
	}{
		"under its context": {alone, read},
		"beside its context": {alone, func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) {
			return s.m.RLock(context.WithoutCancel(write.Context()))
		}},
		"by hand": {alone, func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) {
			return s.m.RLock(holdfast.WithOwner(background, write.Owner()))
		}},
		"downgraded": {alone, func(s *stage, write *holdfast.Hold) (*holdfast.Hold, error) {
			return s.m.Downgrade(write)
		}},
		"under a multi-lock's": {func(s *stage) *holdfast.Hold {
			return s.Must(holdfast.NewMultiLock(s.m, s.Mutex(s.c, "y")).Lock(background))
		}, read},
	} {
		for _, stopping := range []bool{false, true} {
			what := map[bool]string{true: "shutting down"}[stopping]
			t.Run(name+"/"+what, func(t *testing.T) {
				fake(t, func(s *stage) {
					kept := s.Must(s.Mutex(s.c, "z").Lock(background))
					write := row.write(s)
					var over <-chan error
					if stopping {
						over = kit.BeginShutdown(s.c)
						synctest.Wait()
					}
					s.Do("DEL", "x")
					kit.Fails(s.T, holdfast.ErrLost)(row.read(s, write))
					kit.WantLost(s.T, write)
					kit.WantError(s.T, write.Unlock(), holdfast.ErrLost)
					s.Unlock(kept)
					if stopping {
						kit.OK(s.T, <-over)
					}
				})
			})
		}
	}
}

// TestSecondReadNestedInALostWrite: the first read stands.
func TestSecondReadNestedInALostWrite(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		read := s.nested(write)
		s.Do("HDEL", "x", write.Owner().String()+":write")
		s.Do("HSET", "x", "mode", "read")
		kit.Fails(s.T, holdfast.ErrLost)(s.m.RLock(write.Context()))
		kit.WantError(s.T, write.Unlock(), holdfast.ErrLost)
		s.Unlock(read)
	})
}

// TestReadWhileTheWriteHoldIsGivenBack is granted before that is: no other writer comes between the two. The read was
// nested in the write, and ends when WithMaxHold would have ended that.
func TestReadWhileTheWriteHoldIsGivenBack(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		time.Sleep(9 * time.Second)
		kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		read := kit.Begin(func() (*holdfast.Hold, error) { return s.m.RLock(context.WithoutCancel(write.Context())) })
		theirs := kit.Begin(func() (*holdfast.Hold, error) { return s.other.Lock(background) })
		s.Unlock(write)
		got := <-read
		kit.OK(s.T, got.Err, got.Hold.Context().Err())
		select {
		case <-theirs:
			s.Error("another writes beside the read")
		default:
		}
		s.lostAfter(got.Hold, time.Now(), 0, time.Second)
		s.Unlock((<-theirs).Hold)
	}, holdfast.WithMaxHold(10*time.Second))
}

// TestReadBehindAnExpiredRead in one write hold: that stands, whatever has become of what was read in it.
func TestReadBehindAnExpiredRead(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		read := s.nested(write, holdfast.FixedLease(500*time.Millisecond))
		time.Sleep(400 * time.Millisecond)
		kit.Next(s.d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		next := kit.Begin(func() (*holdfast.Hold, error) { return s.m.RLock(write.Context()) })
		s.Unlock(read)
		kit.WantError(s.T, (<-next).Err, holdfast.ErrLost)
		s.Unlock(s.nested(write), write)
	})
}

// TestOneReleaseAgain: however often it is asked for what Redis does not take back, it is tried again one at a time.
func TestOneReleaseAgain(t *testing.T) {
	fake(t, func(s *stage) {
		write := s.lock(s.m)
		var reads []*holdfast.Hold
		for range 5 {
			reads = append(reads, s.nested(write))
		}
		var releases atomic.Int32
		s.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "release" {
				releases.Add(1)
				return refusing("NOPERM")
			}
			return f
		})
		for _, read := range reads {
			s.refused(read)
		}
		before := releases.Load()
		time.Sleep(time.Minute)
		if n := releases.Load() - before; n < 3 || n > 12 { // of 10 s each, after those that Unlock leaves
			s.Errorf("%d releases in a minute", n)
		}
		s.d.SetFaults(nil)
		time.Sleep(20 * time.Second)
		s.Unlock(write)
	})
}
