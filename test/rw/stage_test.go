package rw

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

// stage is a read-write lock x, as two clients have it, and the driver of the first.
type stage struct {
	*kit.World
	*testing.T

	c        *holdfast.Client
	d        *memdriver.Driver
	m, other *holdfast.RWMutex
}

// fake runs a test under fake time. The first client has the options.
func fake(t *testing.T, f func(s *stage), options ...holdfast.ClientOption) {
	t.Helper()
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client(options...)
		other, _ := w.Client()
		f(&stage{w, t, c, d, c.NewRWMutex("x"), other.NewRWMutex("x")})
	})
}

// lock writes, and read reads.
func (s *stage) lock(m *holdfast.RWMutex, options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(m.Lock(background, options...))
}

func (s *stage) read(m *holdfast.RWMutex, options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(m.RLock(background, options...))
}

// nested reads as the owner of a hold, whose end is not that of the new one.
func (s *stage) nested(h *holdfast.Hold, options ...holdfast.LockOption) *holdfast.Hold {
	s.Helper()
	return s.Must(s.m.RLock(context.WithoutCancel(h.Context()), options...))
}

// refused checks that an Unlock says that Redis has refused it.
func (s *stage) refused(h *holdfast.Hold) {
	s.Helper()
	if h.Unlock() == nil {
		s.Error("Unlock does not say that Redis refused")
	}
}

// lostAfter checks when a hold is lost, and gives it back.
func (s *stage) lostAfter(h *holdfast.Hold, start time.Time, least, most time.Duration) {
	s.Helper()
	kit.Took(s.T, kit.LostAt(s.T, h, start), least, most, "lost after %v")
	_ = h.Unlock() // it is lost
}

// wantTTL checks for how long the lock lives.
func (s *stage) wantTTL(least, most time.Duration) {
	s.Helper()
	if ttl := s.PTTL("x"); ttl < least || ttl > most {
		s.Errorf("the lock lives for %v", ttl)
	}
}
