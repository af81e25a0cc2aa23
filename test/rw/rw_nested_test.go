package rw

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Who writes may read as well. If Redis does not know the write hold any more, and nobody here has heard of that
// yet, a read hold is not granted in silence: see nesting in internal/engine/acquire.go.

// TestReadNestedInALostWrite: by every way in which the owner of the write hold may be said.
func TestReadNestedInALostWrite(t *testing.T) {
	lost := func(t *testing.T, write *holdfast.Hold, err error) {
		t.Helper()
		kit.WantError(t, err, holdfast.ErrLost)
		kit.WantLost(t, write)
		kit.WantError(t, write.Unlock(), holdfast.ErrLost)
	}
	for name, run := range map[string]func(t *testing.T, w *kit.World, c *holdfast.Client, m *holdfast.RWMutex){
		"under its context": func(t *testing.T, w *kit.World, _ *holdfast.Client, m *holdfast.RWMutex) {
			write := kit.Must(t)(m.Lock(background))
			w.Do("DEL", "x")
			_, err := m.RLock(write.Context())
			lost(t, write, err)
		},
		"by hand": func(t *testing.T, w *kit.World, _ *holdfast.Client, m *holdfast.RWMutex) {
			write := kit.Must(t)(m.Lock(background))
			w.Do("DEL", "x")
			_, err := m.RLock(holdfast.WithOwner(background, write.Owner()))
			lost(t, write, err)
		},
		"under a multi-lock's": func(t *testing.T, w *kit.World, c *holdfast.Client, m *holdfast.RWMutex) {
			w.Names = []string{"x", "y"}
			write := kit.Must(t)(holdfast.NewMultiLock(m, c.NewMutex("y")).Lock(background))
			w.Do("DEL", "x")
			_, err := m.RLock(write.Context())
			lost(t, write, err)
		},
		"beside another read hold": func(t *testing.T, w *kit.World, _ *holdfast.Client, m *holdfast.RWMutex) {
			write := kit.Must(t)(m.Lock(background))
			read := kit.Must(t)(m.RLock(write.Context()))
			w.Do("HDEL", "x", write.Owner().String()+":write")
			w.Do("HSET", "x", "mode", "read")
			_, err := m.RLock(write.Context())
			lost(t, write, err)
			kit.Unlock(t, read)
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
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
	write := kit.Must(t)(m.Lock(holdfast.WithOwner(background, owner), holdfast.FixedLease(time.Second)))
	time.Sleep(900 * time.Millisecond)
	kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 200 * time.Millisecond, DelayReply: 1500 * time.Millisecond})
	read = make(chan error, 1)
	go func() {
		_, err := m.RLock(context.WithoutCancel(write.Context()))
		read <- err
	}()
	time.Sleep(900 * time.Millisecond)
	kit.WantLost(t, write)
	return read
}

// TestLateAnswerAboutAnEarlierWrite is about the write hold that it was nested in, not about the next one of that owner.
func TestLateAnswerAboutAnEarlierWrite(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		var told atomic.Int32
		c, d := w.Client(holdfast.WithHooks(holdfast.Hooks{OnLost: func(context.Context, holdfast.Event) { told.Add(1) }}))
		owner := c.NewOwner()
		read := readAnsweredLate(t, c, d, owner)
		next := kit.Must(t)(c.NewRWMutex("x").Lock(holdfast.WithOwner(background, owner)))
		kit.WantError(t, <-read, holdfast.ErrLost)
		kit.OK(t, context.Cause(next.Context()))
		kit.Unlock(t, next)
		if n := told.Load(); n != 1 {
			t.Errorf("%d losses told, 1 was", n)
		}
		time.Sleep(time.Minute)
	})
}

// TestLateAnswerBesideAWaitingWriter: the owner waits for the lock meanwhile, and goes on waiting.
func TestLateAnswerBesideAWaitingWriter(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		other, _ := w.Client()
		owner := c.NewOwner()
		read := readAnsweredLate(t, c, d, owner)
		theirs := kit.Must(t)(other.NewRWMutex("x").Lock(background))
		got := make(chan error, 1)
		go func() {
			h, err := c.NewRWMutex("x").Lock(holdfast.WithOwner(background, owner))
			if err == nil {
				err = h.Unlock()
			}
			got <- err
		}()
		kit.WantError(t, <-read, holdfast.ErrLost)
		kit.Unlock(t, theirs)
		kit.OK(t, <-got)
	})
}

// TestReadWhileTheWriteHoldIsGivenBack is granted before that is: no other writer comes between the two.
func TestReadWhileTheWriteHoldIsGivenBack(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background))
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 200 * time.Millisecond})
		read := kit.Begin(func() (*holdfast.Hold, error) { return m.RLock(context.WithoutCancel(write.Context())) })
		other, _ := w.Client()
		theirs := kit.Begin(func() (*holdfast.Hold, error) { return other.NewRWMutex("x").Lock(background) })
		kit.Unlock(t, write)
		got := <-read
		kit.OK(t, got.Err)
		kit.OK(t, got.Hold.Context().Err())
		select {
		case <-theirs:
			t.Error("another writes beside the read")
		default:
		}
		kit.Unlock(t, got.Hold)
		kit.Unlock(t, (<-theirs).Hold)
	})
}

// TestReadBehindAnExpiredRead in one write hold: that stands, whatever has become of what was read in it.
func TestReadBehindAnExpiredRead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background))
		read := kit.Must(t)(m.RLock(write.Context(), holdfast.FixedLease(500*time.Millisecond)))
		time.Sleep(400 * time.Millisecond)
		kit.Once(d, "acquire", memdriver.Fault{DelayRequest: 300 * time.Millisecond})
		next := kit.Begin(func() (*holdfast.Hold, error) { return m.RLock(write.Context()) })
		kit.Unlock(t, read)
		kit.WantError(t, (<-next).Err, holdfast.ErrLost)
		kit.Unlock(t, kit.Must(t)(m.RLock(write.Context())))
		kit.Unlock(t, write)
	})
}

// TestOneReleaseAgain: however often it is asked for what Redis does not take back, it is tried again one at a time.
func TestOneReleaseAgain(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		write := kit.Must(t)(c.NewRWMutex("x").Lock(background))
		var reads []*holdfast.Hold
		for range 5 {
			reads = append(reads, kit.Must(t)(c.NewRWMutex("x").RLock(write.Context())))
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
		kit.Unlock(t, write)
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
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				kept := kit.Must(t)(w.Mutex(c, "z").Lock(background))
				write := kit.Must(t)(c.NewRWMutex("x").Lock(background))
				over := kit.BeginShutdown(c)
				synctest.Wait()
				w.Do("DEL", "x")
				_, err := read(c.NewRWMutex("x"), write)
				kit.WantError(t, err, holdfast.ErrLost)
				kit.WantLost(t, write)
				kit.WantError(t, write.Unlock(), holdfast.ErrLost)
				kit.Unlock(t, kept)
				kit.OK(t, <-over)
			})
		})
	}
}
