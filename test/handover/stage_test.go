package handover

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a lock x, as a process has it: its client, that one's driver, and x as a mutex, or as a read-write lock; and as another
// process has it.
type stage struct {
	*kit.World
	*testing.T

	c, elsewhere *holdfast.Client
	d            *memdriver.Driver
	x, otherX    *holdfast.Mutex
	rw, otherRW  *holdfast.RWMutex
}

// fake runs a test under fake time. The process's client has the options.
func fake(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(options...)
		other, _ := w.Client()
		f(&stage{w, t, c, other, d, c.NewMutex("x"), other.NewMutex("x"), c.NewRWMutex("x"), other.NewRWMutex("x")})
	})
}

func (s *stage) lock(options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.x.Lock(background, options...))
}

func (s *stage) read(options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.rw.RLock(background, options...))
}

// waits has one wait for the mutex, and waitsToRead one that is going to read.
func (s *stage) waits(options ...holdfast.LockOption) <-chan *holdfast.Hold {
	s.Helper()
	return kit.Waiting(s.T, s.x, background, options...)
}

func (s *stage) waitsToRead(options ...holdfast.LockOption) <-chan *holdfast.Hold {
	s.Helper()
	return kit.Waiting(s.T, s.rw.RLocker(), background, options...)
}

// last checks that a read hold is the last one: it alone keeps a writer out, and is unlocked.
func (s *stage) last(h *holdfast.Hold) {
	s.Helper()
	kit.Fails(s.T, holdfast.ErrLocked)(s.rw.TryLock(background))
	s.Unlock(h)
	s.Unlock(s.Must(s.rw.TryLock(background)))
}

// within checks how long something has taken.
func (s *stage) within(start time.Time, most time.Duration) {
	s.Helper()
	kit.Took(s.T, time.Since(start), 0, most, "it took %v")
}

// crowd has so many lock and unlock again and again, until the end, and returns how often they have.
func (s *stage) crowd(n int, held time.Duration, lock func(ctx context.Context) (*holdfast.Hold, error)) (end func() (holds int)) {
	ctx, cancel := context.WithCancel(background)
	var all sync.WaitGroup
	holds := make([]int, n)
	for i := range n {
		all.Go(func() {
			time.Sleep(time.Duration(i) * held / 4)
			for ctx.Err() == nil {
				if h, err := lock(ctx); err == nil {
					time.Sleep(held)
					holds[i]++
					s.Unlock(h)
				}
			}
		})
	}
	synctest.Wait()
	s.Cleanup(all.Wait)
	s.Cleanup(cancel)
	return func() (sum int) {
		cancel()
		all.Wait()
		for _, n := range holds {
			sum += n
		}
		return sum
	}
}

// behind begins a Lock with the options while the first one is on its way, so that nobody is refused. It returns the hold of the first
// one, and what comes of the second, which is unlocked.
func (s *stage) behind(options ...holdfast.LockOption) (*holdfast.Hold, <-chan error) {
	s.Helper()
	kit.Every(s.d, "acquire", memdriver.Fault{DelayRequest: time.Millisecond})
	first := s.waits()
	second := kit.Aside(func() error {
		h, err := s.x.Lock(background, options...)
		if err != nil {
			return err
		}
		return h.Unlock()
	})
	h := <-first
	s.d.SetFaults(nil)
	return h, second
}
