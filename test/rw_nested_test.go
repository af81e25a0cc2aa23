package test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// Who writes may read as well. If Redis does not know the write hold any more, and nobody here has heard of that
// yet, a read hold is not granted in silence: see nesting in internal/engine/acquire.go.

// TestReadNestedInALostWrite: by every way in which the owner of the write hold may be said.
func TestReadNestedInALostWrite(t *testing.T) {
	lost := func(t *testing.T, write *holdfast.Hold, err error) {
		t.Helper()
		wantError(t, err, holdfast.ErrLost)
		wantLost(t, write)
		wantError(t, write.Unlock(), holdfast.ErrLost)
	}
	for name, run := range map[string]func(t *testing.T, w *world, c *holdfast.Client, m *holdfast.RWMutex){
		"under its context": func(t *testing.T, w *world, _ *holdfast.Client, m *holdfast.RWMutex) {
			write := must(t)(m.Lock(background))
			w.do("DEL", "x")
			_, err := m.RLock(write.Context())
			lost(t, write, err)
		},
		"by hand": func(t *testing.T, w *world, _ *holdfast.Client, m *holdfast.RWMutex) {
			write := must(t)(m.Lock(background))
			w.do("DEL", "x")
			_, err := m.RLock(holdfast.WithOwner(background, write.Owner()))
			lost(t, write, err)
		},
		"under a multi-lock's": func(t *testing.T, w *world, c *holdfast.Client, m *holdfast.RWMutex) {
			w.names = []string{"x", "y"}
			write := must(t)(holdfast.NewMultiLock(m, c.NewMutex("y")).Lock(background))
			w.do("DEL", "x")
			_, err := m.RLock(write.Context())
			lost(t, write, err)
		},
		"beside another read hold": func(t *testing.T, w *world, _ *holdfast.Client, m *holdfast.RWMutex) {
			write := must(t)(m.Lock(background))
			read := must(t)(m.RLock(write.Context()))
			w.do("HDEL", "x", write.Owner().String()+":write")
			w.do("HSET", "x", "mode", "read")
			_, err := m.RLock(write.Context())
			lost(t, write, err)
			unlock(t, read)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				c, _ := w.client()
				run(t, w, c, c.NewRWMutex("x"))
			})
		})
	}
}

// readAnsweredLate writes for a second, and then asks to read, nested in that: the request arrives when the write hold is
// over, and the answer much later.
func readAnsweredLate(t *testing.T, c *holdfast.Client, d *memdriver.Driver, owner holdfast.Owner) (read chan error) {
	t.Helper()
	m := c.NewRWMutex("x")
	write := must(t)(m.Lock(holdfast.WithOwner(background, owner), holdfast.FixedLease(time.Second)))
	time.Sleep(900 * time.Millisecond)
	once(d, "acquire", memdriver.Fault{DelayRequest: 200 * time.Millisecond, DelayReply: 1500 * time.Millisecond})
	read = make(chan error, 1)
	go func() {
		_, err := m.RLock(context.WithoutCancel(write.Context()))
		read <- err
	}()
	time.Sleep(900 * time.Millisecond)
	wantLost(t, write)
	return read
}

// TestLateAnswerAboutAnEarlierWrite is about the write hold that it was nested in, not about the next one of that owner.
func TestLateAnswerAboutAnEarlierWrite(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		var told atomic.Int32
		c, d := w.client(holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { told.Add(1) }}))
		owner := c.NewOwner()
		read := readAnsweredLate(t, c, d, owner)
		next := must(t)(c.NewRWMutex("x").Lock(holdfast.WithOwner(background, owner)))
		wantError(t, <-read, holdfast.ErrLost)
		ok(t, context.Cause(next.Context()))
		unlock(t, next)
		if n := told.Load(); n != 1 {
			t.Errorf("%d losses told, 1 was", n)
		}
		time.Sleep(time.Minute)
	})
}

// TestLateAnswerBesideAWaitingWriter: the owner waits for the lock meanwhile, and goes on waiting.
func TestLateAnswerBesideAWaitingWriter(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		other, _ := w.client()
		owner := c.NewOwner()
		read := readAnsweredLate(t, c, d, owner)
		theirs := must(t)(other.NewRWMutex("x").Lock(background))
		got := make(chan error, 1)
		go func() {
			h, err := c.NewRWMutex("x").Lock(holdfast.WithOwner(background, owner))
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
		wantError(t, <-read, holdfast.ErrLost)
		unlock(t, theirs)
		ok(t, <-got)
	})
}

// TestReadWhileTheWriteHoldIsGivenBack is granted before that is: no other writer comes between the two.
func TestReadWhileTheWriteHoldIsGivenBack(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		m := c.NewRWMutex("x")
		write := must(t)(m.Lock(background))
		once(d, "acquire", memdriver.Fault{DelayRequest: 200 * time.Millisecond})
		read := begin(func() (*holdfast.Hold, error) { return m.RLock(context.WithoutCancel(write.Context())) })
		other, _ := w.client()
		theirs := begin(func() (*holdfast.Hold, error) { return other.NewRWMutex("x").Lock(background) })
		unlock(t, write)
		got := <-read
		ok(t, got.err)
		ok(t, got.hold.Context().Err())
		select {
		case <-theirs:
			t.Error("another writes beside the read")
		default:
		}
		unlock(t, got.hold)
		unlock(t, (<-theirs).hold)
	})
}

// TestReadBehindAnExpiredRead in one write hold: that stands, whatever has become of what was read in it.
func TestReadBehindAnExpiredRead(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		m := c.NewRWMutex("x")
		write := must(t)(m.Lock(background))
		read := must(t)(m.RLock(write.Context(), holdfast.FixedLease(500*time.Millisecond)))
		time.Sleep(400 * time.Millisecond)
		once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		next := begin(func() (*holdfast.Hold, error) { return m.RLock(write.Context()) })
		unlock(t, read)
		wantError(t, (<-next).err, holdfast.ErrLost)
		unlock(t, must(t)(m.RLock(write.Context())))
		unlock(t, write)
	})
}

// TestOneReleaseAgain: however often it is asked for what Redis does not take back, it is tried again one at a time.
func TestOneReleaseAgain(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		c, d := w.client()
		write := must(t)(c.NewRWMutex("x").Lock(background))
		var reads []*holdfast.Hold
		for range 5 {
			reads = append(reads, must(t)(c.NewRWMutex("x").RLock(write.Context())))
		}
		var releases atomic.Int32
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "release" {
				releases.Add(1)
				return refusing("NOPERM")(call)
			}
			return f
		})
		for _, read := range reads {
			if read.Unlock() == nil {
				t.Error("Unlock does not say that Redis refused")
			}
		}
		before := releases.Load()
		time.Sleep(time.Minute)
		if n := releases.Load() - before; n < 3 || n > 12 { // of 10 s each, after those that Unlock leaves
			t.Errorf("%d releases in a minute", n)
		}
		d.SetFaults(nil)
		time.Sleep(20 * time.Second)
		unlock(t, write)
	})
}

// TestReadWhoseWriteIsLostDuringShutdown: it is told so, and not that the client is closed: that goes on.
func TestReadWhoseWriteIsLostDuringShutdown(t *testing.T) {
	for name, read := range map[string]func(m *holdfast.RWMutex, write *holdfast.Hold) (*holdfast.Hold, error){
		"by hand": func(m *holdfast.RWMutex, write *holdfast.Hold) (*holdfast.Hold, error) {
			return m.RLock(holdfast.WithOwner(background, write.Owner()))
		},
		"under its context": func(m *holdfast.RWMutex, write *holdfast.Hold) (*holdfast.Hold, error) {
			return m.RLock(context.WithoutCancel(write.Context()))
		},
		"downgrade": func(m *holdfast.RWMutex, write *holdfast.Hold) (*holdfast.Hold, error) { return m.Downgrade(write) },
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(t *testing.T, w *world) {
				c, _ := w.client()
				kept := must(t)(w.mutex(c, "z").Lock(background))
				write := must(t)(c.NewRWMutex("x").Lock(background))
				over := beginShutdown(c)
				synctest.Wait()
				w.do("DEL", "x")
				_, err := read(c.NewRWMutex("x"), write)
				wantError(t, err, holdfast.ErrLost)
				wantLost(t, write)
				wantError(t, write.Unlock(), holdfast.ErrLost)
				unlock(t, kept)
				ok(t, <-over)
			})
		})
	}
}
