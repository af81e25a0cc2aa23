package multi

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is some servers, each with a client and its driver. The first has another client besides.
type stage struct {
	*kit.Servers
	*testing.T
	*kit.World // the first

	c, other *holdfast.Client
	d        *memdriver.Driver
}

// fake runs a test under fake time on n servers. The clients but the other one have the options.
func fake(t *testing.T, n int, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		servers := kit.Several(w, n, options...)
		other, _ := w.Client()
		f(&stage{servers, t, w, servers.Clients[0], other, servers.Drivers[0]})
	})
}

// multi is made of mutexes of the first server.
func (s *stage) multi(names ...string) *holdfast.MultiLock {
	return holdfast.NewMultiLock(kit.Mutexes(s.c, names...)...)
}

func (s *stage) lock(l holdfast.Locker, options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(l.Lock(background, options...))
}

// heldByOther has the other client hold a mutex.
func (s *stage) heldByOther(name string) *holdfast.Hold {
	s.Helper()
	return s.lock(s.other.NewMutex(name))
}

// begin returns what a call will bring that waits.
func begin(l holdfast.Locker, ctx context.Context, options ...holdfast.LockOption) <-chan kit.Result {
	return kit.Begin(func() (*holdfast.Hold, error) { return l.Lock(ctx, options...) })
}

// trusts checks that the hold goes on.
func (s *stage) trusts(h *holdfast.Hold) {
	s.Helper()
	if err := context.Cause(h.Context()); err != nil {
		s.Errorf("lost: %v", err)
	}
}

// closed checks that a hold has ended with its client.
func (s *stage) closed(h *holdfast.Hold) {
	s.Helper()
	if cause := context.Cause(h.Context()); cause != holdfast.ErrClosed { //nolint:errorlint // unwrapped
		s.Errorf("cause %v", cause)
	}
}

// keys checks which ones the first server has.
func (s *stage) keys(want string) {
	s.Helper()
	s.WantReply(want, "KEYS", "*")
}

// within checks that no more than that has passed.
func (s *stage) within(start time.Time, most time.Duration) {
	s.Helper()
	kit.Took(s.T, time.Since(start), 0, most, "it took %v, which is too long")
}

// backend is a call that Redis has not answered, or refused.
func (s *stage) backend(err error) *holdfast.BackendError {
	s.Helper()
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || errors.Is(err, holdfast.ErrLocked) {
		s.Fatalf("%v is no *BackendError", err)
	}
	return failed
}

// takeTurns has some contend for as many locks, which are one, so often each: they never overlap, and end in a minute.
func (s *stage) takeTurns(turns int, locks ...holdfast.Locker) {
	s.Helper()
	start := time.Now()
	kit.TakeTurns(s.T, turns, 5*time.Millisecond, locks...)
	s.within(start, time.Minute)
}

// fixed is a fixed lease, or none.
func fixed(lease time.Duration) (options []holdfast.LockOption) {
	if lease > 0 {
		options = append(options, holdfast.FixedLease(lease))
	}
	return options
}
