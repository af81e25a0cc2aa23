package rw

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// One owner writes, and reads with a longer lease, which both have one key for. When the
// write hold is lost, the key goes on; the write hold in it must not.

// writeAndRead returns a write hold for two seconds, and a read hold of the same owner for ten minutes.
func writeAndRead(t *testing.T, c *holdfast.Client) (write, read *holdfast.Hold) {
	t.Helper()
	write = kit.Must(t)(c.NewRWMutex("x").Lock(background, holdfast.FixedLease(2*time.Second)))
	read = kit.Must(t)(c.NewRWMutex("x").RLock(context.WithoutCancel(write.Context()), holdfast.FixedLease(10*time.Minute)))
	return write, read
}

// TestLostWriteBesideALongerRead: others may read as soon as the write hold is over, whether or not it is
// ever unlocked.
func TestLostWriteBesideALongerRead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		write, read := writeAndRead(t, c)
		reader := kit.Must(t)(other.NewRWMutex("x").RLock(background, holdfast.Wait(20*time.Second)))
		if write.Context().Err() == nil {
			t.Error("another one reads while the lock is held for writing")
		}
		kit.WantError(t, write.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, reader)
		kit.Unlock(t, read)
		if left := w.Do("KEYS", "*x*"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}

// TestLostWriteAfterALongerRead: the same once the read hold has been given back.
func TestLostWriteAfterALongerRead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		write, read := writeAndRead(t, c)
		kit.Unlock(t, read)
		kit.Unlock(t, kit.Must(t)(other.NewRWMutex("x").Lock(background, holdfast.Wait(20*time.Second))))
		kit.WantError(t, write.Unlock(), holdfast.ErrLost)
	})
}

// TestWriteLostInAPartition: Unlock of the write hold does not reach Redis, and the read hold is renewed once
// the partition is over.
func TestWriteLostInAPartition(t *testing.T) {
	for name, prompt := range map[string]bool{"unlocked at once": true, "unlocked later": false} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				other, _ := w.Client()
				write := kit.Must(t)(c.NewRWMutex("x").Lock(background))
				read := kit.Must(t)(c.NewRWMutex("x").RLock(context.WithoutCancel(write.Context()), holdfast.RenewedLease(5*time.Minute)))
				d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{LoseRequest: true} })
				<-write.Context().Done()
				if prompt {
					_ = write.Unlock() // says that it does not know
				}
				time.Sleep(70 * time.Second)
				d.SetFaults(nil)
				reader := kit.Must(t)(other.NewRWMutex("x").RLock(background, holdfast.Wait(30*time.Second)))
				if !prompt {
					kit.WantError(t, write.Unlock(), holdfast.ErrLost)
				}
				time.Sleep(10 * time.Minute)
				kit.Unlock(t, reader)
				kit.Unlock(t, read)
				if left := w.Do("KEYS", "*x*"); left != "" && left != protocol.TurnKey("x") { // which stays for a second
					t.Errorf("left: %s", left)
				}
			})
		})
	}
}

// TestTransferBesideALostWrite: the read hold can be handed over when the write hold is no more.
func TestTransferBesideALostWrite(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		other, _ := w.Client()
		_, read := writeAndRead(t, c)
		time.Sleep(10 * time.Second)
		owner, err := read.Detach()
		kit.OK(t, err)
		kit.Unlock(t, kit.Must(t)(other.NewRWMutex("x").RLocker().Adopt(background, owner)))
	})
}

// TestLostWriteWithAnUnansweredAttempt: how long it is unknown what became of an attempt to acquire it does not
// keep what is lost in Redis.
func TestLostWriteWithAnUnansweredAttempt(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		kit.Once(d, "acquire", memdriver.Fault{LoseReply: true})
		write, read := writeAndRead(t, c)
		<-write.Context().Done()
		start := time.Now()
		reader := kit.Must(t)(other.NewRWMutex("x").RLock(background, holdfast.Wait(30*time.Second)))
		kit.Took(t, time.Since(start), 0, time.Second, "others may read %v after the write hold was lost")
		kit.Unlock(t, reader)
		kit.Unlock(t, read)
	})
}

// refusing has Redis refuse every call with an error of its own.
func refusing(code string) func(driver.Call) memdriver.Fault {
	return func(driver.Call) memdriver.Fault {
		return memdriver.Fault{Refuse: driver.ServerError(code+" no", errors.New(code+" no"))}
	}
}

// TestRefusedReleaseBesideARead: Redis refuses for a while to give back what is held for writing, which does not end
// by itself while the owner reads.
func TestRefusedReleaseBesideARead(t *testing.T) {
	for _, code := range []string{"NOPERM", "READONLY", "ERR"} {
		for way, unlocked := range map[string]bool{"unlocked": true, "lost": false} {
			t.Run(code+" "+way, func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					other, _ := w.Client()
					write := kit.Must(t)(c.NewRWMutex("x").Lock(background, holdfast.FixedLease(10*time.Second)))
					read := kit.Must(t)(c.NewRWMutex("x").RLock(context.WithoutCancel(write.Context())))
					if unlocked {
						d.SetFaults(refusing(code))
						if write.Unlock() == nil {
							t.Error("Unlock does not say that Redis refused")
						}
					} else {
						time.Sleep(9 * time.Second)
						d.SetFaults(refusing(code))
						<-write.Context().Done()
					}
					time.Sleep(time.Second)
					d.SetFaults(nil)
					kit.Unlock(t, kit.Must(t)(other.NewRWMutex("x").RLock(background, holdfast.Wait(15*time.Second))))
					kit.OK(t, context.Cause(read.Context()))
					kit.Unlock(t, read)
				})
			})
		}
	}
}

// TestCloseWhileAReleaseIsRefused: Close does not wait until Redis takes it back.
func TestCloseWhileAReleaseIsRefused(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		write := kit.Must(t)(c.NewRWMutex("x").Lock(background))
		_ = kit.Must(t)(c.NewRWMutex("x").RLock(write.Context()))
		d.SetFaults(refusing("NOPERM"))
		if write.Unlock() == nil {
			t.Error("Unlock does not say that Redis refused")
		}
		start := time.Now()
		_ = c.Close()
		if took := time.Since(start); took > 6*time.Second { // the client's timeout
			t.Errorf("Close took %v", took)
		}
		w.Do("FLUSHALL") // what Redis has kept
	})
}

// TestDetachOfBothSides: neither waits for the other until the timeout.
func TestDetachOfBothSides(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		write := kit.Must(t)(c.NewRWMutex("x").Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{LoseReply: true})
		read := kit.Must(t)(c.NewRWMutex("x").RLock(write.Context()))
		start := time.Now()
		done := make(chan error)
		go func() {
			_, err := read.Detach()
			done <- err
		}()
		synctest.Wait()
		_, err := write.Detach()
		kit.WantError(t, err, holdfast.ErrReentrant)
		kit.WantError(t, <-done, holdfast.ErrReentrant)
		kit.Took(t, time.Since(start), 0, time.Second, "it took %v")
		kit.Unlock(t, read)
		kit.Unlock(t, write)
	})
}

// TestOneOwnerAsksForBothSides: under one owner, one goroutine stands in line to read, behind a reader of another owner, and
// another one writes, and reads in that. Whichever of them begins to wait first, none waits for the other for ever.
func TestOneOwnerAsksForBothSides(t *testing.T) {
	for name, readsFirst := range map[string]bool{"reads first": true, "writes first": false} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				other, _ := w.Client()
				m, ctx := c.NewRWMutex("x", holdfast.WritersFirst()), holdfast.WithOwner(background, c.NewOwner())
				wait := holdfast.Wait(time.Hour)
				readUnder := func(ctx context.Context) error {
					h, err := m.RLock(ctx, wait)
					if err != nil {
						return err
					}
					time.Sleep(time.Second)
					return h.Unlock()
				}
				ahead := func() error { return readUnder(background) }
				read := func() error { return readUnder(ctx) }
				write := func() error {
					h, err := m.Lock(ctx, wait)
					if errors.Is(err, holdfast.ErrReentrant) { // it reads already
						return nil
					}
					if err != nil {
						return err
					}
					inner, err := m.RLock(h.Context(), wait)
					if err != nil {
						return err
					}
					time.Sleep(time.Second)
					return errors.Join(inner.Unlock(), h.Unlock())
				}
				calls := []func() error{ahead, read, write}
				if !readsFirst {
					calls = []func() error{ahead, write, read}
				}
				theirs := kit.Must(t)(other.NewRWMutex("x").Lock(background))
				done := make(chan error, len(calls))
				for _, call := range calls {
					go func() { done <- call() }()
					synctest.Wait()
				}
				start := time.Now()
				kit.Unlock(t, theirs)
				for range calls {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				kit.Took(t, time.Since(start), 0, 10*time.Second, "all have ended after %v")
			})
		})
	}
}
