package owner

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a lock x of some kind, as two clients have it, and the driver of the first.
type stage struct {
	*kit.World
	*testing.T

	c, other *holdfast.Client
	d        *memdriver.Driver
	x        kit.AnyLock     // the first client's
	theirs   kit.AnyLock     // the other one's, and its rival
	own      context.Context // of an owner of the first client
}

func newStage(t *testing.T, w *kit.World, options []holdfast.ClientOption) *stage {
	t.Helper()
	c, d := w.Client(options...)
	other, _ := w.Client()
	return &stage{w, t, c, other, d, w.Lock(c), w.Rival(other), holdfast.WithOwner(background, c.NewOwner())}
}

// fake runs a test of a mutex under fake time, fakeKinds one of each kind, and fakeNesting one of each that nests. The first client has the options.
func fake(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) { f(newStage(t, w, options)) })
}

func fakeKinds(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) { f(newStage(t, w, options)) })
}

func fakeNesting(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	kit.FakeNesting(t, func(t *testing.T, w *kit.World) { f(newStage(t, w, options)) })
}

// lock has the first client lock x, and begin has it do so beside other calls.
func (s *stage) lock(ctx context.Context, options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.x.Lock(ctx, options...))
}

func (s *stage) begin(ctx context.Context, options ...holdfast.LockOption) <-chan kit.Result {
	return kit.Begin(func() (*holdfast.Hold, error) { return s.x.Lock(ctx, options...) })
}

// got is the hold that a call has brought, and failed checks that it has failed. It gives back what has been acquired nevertheless.
func (s *stage) got(from <-chan kit.Result) *holdfast.Hold {
	s.Helper()
	result := <-from
	return s.Must(result.Hold, result.Err)
}

func (s *stage) failed(from <-chan kit.Result, targets ...error) error {
	s.Helper()
	result := <-from
	kit.WantError(s.T, result.Err, targets...)
	if result.Err == nil {
		s.Error("no error")
		s.Unlock(result.Hold)
	}
	return result.Err
}

// heldByOther has the other client hold x, or its rival.
func (s *stage) heldByOther(options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.theirs.Lock(background, options...))
}

func (s *stage) detach(h *holdfast.Hold) holdfast.Owner {
	s.Helper()
	owner, err := h.Detach()
	kit.OK(s.T, err)
	return owner
}

// within checks that no more than that has passed.
func (s *stage) within(start time.Time, most time.Duration) {
	s.Helper()
	if took := time.Since(start); took > most {
		s.Errorf("it took %v, want %v at most", took, most)
	}
}
