package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a lock x of the world's kind, as a client has it, with that client's driver, and its rival at another client.
type stage struct {
	*kit.World
	*testing.T

	c        *holdfast.Client
	d        *memdriver.Driver
	l, rival kit.AnyLock
	ctx      context.Context // of an owner of the client
}

// runner runs a test under fake time, on a stage whose client has the options.
type runner func(t *testing.T, f func(s *stage), options ...holdfast.ClientOption)

// fake does so with a plain mutex, kinds for each kind, nesting for each that nests, and keeping for each that can keep a lock from
// others.
func fake(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	of(t, kit.MutexKind, f, options)
}

var (
	kinds   = each(func(*kit.Kind) bool { return true })
	nesting = each(func(k *kit.Kind) bool { return k.Nests() })
	keeping = each(func(k *kit.Kind) bool { return !k.Shared })
)

func each(which func(k *kit.Kind) bool) runner {
	return func(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
		t.Helper()
		kit.ForKinds(t, func(t *testing.T, k *kit.Kind) {
			if which(k) {
				of(t, k, f, options)
			}
		})
	}
}

func of(t *testing.T, k *kit.Kind, f func(s *stage), options []holdfast.ClientOption) {
	t.Helper()
	kit.FakeKind(t, k, func(t *testing.T, w *kit.World) {
		c, d := w.Client(options...)
		other, _ := w.Client()
		f(&stage{w, t, c, d, w.Lock(c), w.Rival(other), holdfast.WithOwner(background, c.NewOwner())})
	})
}

// rows runs it with each row of a table, values with each of some values, and often so many times.
func rows[T any](t *testing.T, run runner, table map[string]T, f func(s *stage, row T), options ...holdfast.ClientOption) {
	t.Helper()
	for name, row := range table {
		t.Run(name, func(t *testing.T) { run(t, func(s *stage) { f(s, row) }, options...) })
	}
}

func values[T any](t *testing.T, run runner, all []T, f func(s *stage, value T), options ...holdfast.ClientOption) {
	t.Helper()
	for _, value := range all {
		t.Run(fmt.Sprint(value), func(t *testing.T) { run(t, func(s *stage) { f(s, value) }, options...) })
	}
}

func often(t *testing.T, run runner, n int, f func(s *stage, i int), options ...holdfast.ClientOption) {
	t.Helper()
	for i := range n {
		run(t, func(s *stage) { f(s, i) }, options...)
	}
}

func (s *stage) lock(options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.l.Lock(background, options...))
}

// in locks as the owner of a context, or of a hold whose context it is.
func (s *stage) in(ctx context.Context, options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.l.Lock(ctx, options...))
}

// heldByOther is the rival's hold.
func (s *stage) heldByOther() *holdfast.Hold {
	s.Helper()
	return s.Must(s.rival.Lock(background))
}

// begin has the client lock x beside other calls, and returns what comes of it.
func (s *stage) begin(ctx context.Context, options ...holdfast.LockOption) <-chan kit.Result {
	return kit.Begin(func() (*holdfast.Hold, error) { return s.l.Lock(ctx, options...) })
}

// givesUp has a Lock fail since its context ends.
func (s *stage) givesUp(ctx context.Context, after time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	kit.Fails(s.T, context.DeadlineExceeded)(s.l.Lock(ctx))
}

// trusts checks that the hold goes on.
func (s *stage) trusts(h *holdfast.Hold) {
	s.Helper()
	if h.Context().Err() != nil {
		s.Errorf("%v: %v", h, context.Cause(h.Context()))
	}
}

// alone checks that the owner has the lock once, and nobody else beside it, and gives it back.
func (s *stage) alone(h *holdfast.Hold) {
	s.Helper()
	s.trusts(h)
	s.WantCount("x", h.Owner(), 1)
	kit.Fails(s.T, holdfast.ErrLocked)(s.rival.TryLock(background))
	s.Unlock(h)
}

func (s *stage) free() {
	s.Helper()
	s.WantCount("x", holdfast.Owner{}, 0)
}

// within checks how long something has taken.
func (s *stage) within(start time.Time, least, most time.Duration) {
	s.Helper()
	kit.Took(s.T, time.Since(start), least, most, "it took %v")
}

// first has each script's first calls suffer, one after the other.
func (s *stage) first(faults map[string][]memdriver.Fault) {
	n := map[string]*atomic.Int32{}
	for script := range faults {
		n[script] = new(atomic.Int32)
	}
	s.d.SetFaults(func(call driver.Call) memdriver.Fault {
		of := faults[call.Script.Name()]
		if len(of) > 0 {
			if i := int(n[call.Script.Name()].Add(1)); i <= len(of) {
				return of[i-1]
			}
		}
		return memdriver.Fault{}
	})
}

// heals ends the faults, and leaves time for what is still to be done.
func (s *stage) heals() {
	s.d.SetFaults(nil)
	time.Sleep(time.Minute)
}

// panics calls something, and returns what it panics with.
func panics(call func()) (with any) {
	defer func() { with = recover() }()
	call()
	return nil
}

// backend is the error of a Redis that did not answer, or has refused: what an error has to be. Its text says that.
func (s *stage) backend(what any, err error, says string) holdfast.BackendError {
	s.Helper()
	var failed *holdfast.BackendError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), says) {
		s.Errorf("%v: %v", what, err)
		return holdfast.BackendError{}
	}
	return *failed
}

// counts checks that somebody has these holds, and nobody has any other.
func (s *stage) counts(holds []*holdfast.Hold) {
	s.Helper()
	if len(holds) == 0 {
		s.free()
		return
	}
	s.WantCount("x", holds[0].Owner(), len(holds))
	for _, h := range holds {
		s.trusts(h)
	}
}
