package fair

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

var background = context.Background()

// stage is a fair lock x that somebody holds.
type stage struct {
	*kit.World
	*testing.T

	h *holdfast.Hold
}

// fake runs a test under fake time. At the end, nothing of a line is left.
func fake(t *testing.T, f func(s *stage)) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := &stage{World: w, T: t}
		s.h = kit.Must(t)(s.newLock().Lock(background))
		f(s)
		s.wantNoLine()
	})
}

// newLock is the lock as a client of its own has it.
func (s *stage) newLock() *holdfast.Mutex {
	s.Helper()
	c, _ := s.Client()
	return c.NewFairMutex("x")
}

// stand has a client of its own wait for the lock, and returns when it stands in line.
func (s *stage) stand(options ...holdfast.LockOption) *kit.Standing {
	s.Helper()
	c, d := s.Client()
	return s.standAs(c, d, options...)
}

func (s *stage) standAs(c *holdfast.Client, d *memdriver.Driver, options ...holdfast.LockOption) *kit.Standing {
	s.Helper()
	return s.WaitAs(c, d, c.NewFairMutex("x"), options...)
}

// line has some stand there, each with a client of its own.
func (s *stage) line(n int) (line []*kit.Standing) {
	s.Helper()
	for range n {
		line = append(line, s.stand())
	}
	return line
}

// cutOff has waiters neither hear nor be heard, as if they had been killed.
func cutOff(waiters ...*kit.Standing) {
	for _, waiter := range waiters {
		kit.Away(waiter.D)
		waiter.D.LoseMessages(true)
	}
}

// back ends that.
func back(waiters ...*kit.Standing) {
	for _, waiter := range waiters {
		waiter.D.SetFaults(nil)
		waiter.D.LoseMessages(false)
	}
}

// release gives the lock back, and takeTurns has each of a line have it, and nobody before its turn.
func (s *stage) release() time.Time {
	s.Helper()
	released := time.Now()
	kit.Unlock(s.T, s.h)
	return released
}

func (s *stage) takeTurns(line ...*kit.Standing) {
	s.Helper()
	for i, waiter := range line {
		h := waiter.Hold(s.T)
		for _, later := range line[i+1:] {
			if !later.Waits() {
				s.Fatalf("one came before number %d", i)
			}
		}
		kit.Unlock(s.T, h)
	}
}

// within checks that no more than that has passed.
func (s *stage) within(start time.Time, most time.Duration) {
	s.Helper()
	kit.Took(s.T, time.Since(start), 0, most, "it took %v, which is too long")
}

// wantLine checks who stands in line, in Redis and by Inspect.
func (s *stage) wantLine(waiters ...*kit.Standing) {
	s.Helper()
	want, texts := make([]holdfast.Owner, len(waiters)), make([]string, len(waiters))
	for i, waiter := range waiters {
		want[i], texts[i] = waiter.Owner, waiter.Owner.String()
	}
	s.WantReply(strings.Join(texts, " "), "LRANGE", kit.QueueKey, "0", "-1")
	found, err := s.newLock().Inspect(background)
	if err != nil || !slices.Equal(found.Waiters, want) {
		s.Errorf("Inspect: waiters %v, %v, want %v", found.Waiters, err, want)
	}
}

// wantNoLine checks that nothing of a line is left.
func (s *stage) wantNoLine() {
	s.Helper()
	synctest.Wait()
	s.WantReply("", "KEYS", "redisson_lock_*")
	s.WantReply("", "KEYS", "holdfast_*")
}
