package kit

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
)

// The keys of a fair lock named x.
const (
	QueueKey      = "redisson_lock_queue:{x}"
	TimeoutsKey   = "redisson_lock_timeout:{x}"
	HeartbeatsKey = "holdfast_lock_waiting:{x}"
)

// Standing is a waiter in line.
type Standing struct {
	C       *holdfast.Client
	D       *memdriver.Driver
	Owner   holdfast.Owner
	Field   string // of the owner, in line
	Cancel  context.CancelCauseFunc
	Got     chan *holdfast.Hold // closed if it failed
	Err     error
	Entered time.Time
	Granted time.Time     // when its wait ended
	ended   chan struct{} // closed then
}

// WaitAs has a client wait for a lock, as an owner that it makes for that, and returns when it does.
func (w *World) WaitAs(c *holdfast.Client, d *memdriver.Driver, l AnyLock, options ...holdfast.LockOption) *Standing {
	w.T.Helper()
	owner := c.NewOwner()
	s := WaitWith(c, d, holdfast.WithOwner(background, owner), func(ctx context.Context) (*holdfast.Hold, error) { return l.Lock(ctx, options...) })
	s.Owner, s.Field = owner, w.Kind.Field(owner.String())
	return s
}

// WaitWith has a client wait as lock does, and returns when it does.
func WaitWith(c *holdfast.Client, d *memdriver.Driver, ctx context.Context, lock func(ctx context.Context) (*holdfast.Hold, error)) *Standing {
	s := &Standing{C: c, D: d, Got: make(chan *holdfast.Hold, 1), Entered: time.Now(), ended: make(chan struct{})}
	ctx, s.Cancel = context.WithCancelCause(ctx)
	go func() {
		h, err := lock(ctx)
		s.Granted = time.Now()
		if err == nil {
			s.Got <- h
		}
		s.Err = err
		close(s.Got)
		close(s.ended)
	}()
	synctest.Wait()
	return s
}

// Hold waits for the lock.
func (s *Standing) Hold(t *testing.T) *holdfast.Hold {
	t.Helper()
	return s.holdAfter(t, time.Hour)
}

// holdAfter waits so long for the lock, at most.
func (s *Standing) holdAfter(t *testing.T, most time.Duration) *holdfast.Hold {
	t.Helper()
	return Must(t)(s.Await(most))
}

// Await waits so long for the lock, at most; in any goroutine.
func (s *Standing) Await(most time.Duration) (*holdfast.Hold, error) {
	select {
	case h, ok := <-s.Got:
		if ok {
			return h, nil
		}
	case <-time.After(most):
	}
	return nil, fmt.Errorf("%v did not get it: %w", s.Owner, s.Err)
}

// Waits reports whether it waits still.
func (s *Standing) Waits() bool {
	synctest.Wait()
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// GrantLasts is how long a grant lasts before somebody has renewed it, and AsksEvery how often the first of the line ask.
const (
	GrantLasts = 3 * time.Second
	AsksEvery  = time.Second
)

// Within checks that the waiter gets the lock in time, and returns the hold.
func (s *Standing) Within(t *testing.T, since time.Time, most time.Duration) *holdfast.Hold {
	t.Helper()
	h := s.holdAfter(t, most+5*time.Minute)
	if took := s.Granted.Sub(since); took > most {
		t.Errorf("it got the lock after %v, want %v at most", took, most)
	}
	return h
}
