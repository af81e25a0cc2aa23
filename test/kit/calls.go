package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
)

// begun sends what a call returns, which is made in a goroutine of its own.
func begun[T any](call func() T) <-chan T {
	done := make(chan T, 1)
	go func() { done <- call() }()
	return done
}

// BeginShutdown begins Shutdown, and sends what it returns.
func BeginShutdown(c *holdfast.Client) <-chan error {
	return begun(func() error { return c.Shutdown(background) })
}

// Aside makes a call in a goroutine of its own, and sends what it returns.
func Aside(call func() error) <-chan error {
	defer synctest.Wait()
	return begun(call)
}

// Nothing checks that nothing has come yet.
func Nothing[T any](t *testing.T, from <-chan T, says string) {
	t.Helper()
	select {
	case <-from:
		t.Error(says)
	default:
	}
}

// Force takes a lock from whoever holds it.
func Force(t *testing.T, l holdfast.Inspector) {
	t.Helper()
	if did, err := l.ForceUnlock(background); !did || err != nil {
		t.Fatalf("ForceUnlock: %v, %v", did, err)
	}
}

// WantBackend checks a call that Redis has refused, without any effect.
func WantBackend(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	var backend *holdfast.BackendError
	if !errors.As(err, &backend) || backend.MayHaveRun {
		t.Errorf("%s: %v: not a BackendError without an effect", what, err)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q does not say %q", what, err, text)
		}
	}
}

// Waiting starts a Lock and returns, once it waits, what it will bring.
func Waiting(t *testing.T, l holdfast.Locker, ctx context.Context, options ...holdfast.LockOption) <-chan *holdfast.Hold {
	t.Helper()
	got := make(chan *holdfast.Hold, 1)
	go func() {
		h, err := l.Lock(ctx, options...)
		if err != nil {
			close(got)
			return
		}
		got <- h
	}()
	synctest.Wait()
	return got
}

// names gives every test a lock of its own.
var names atomic.Int64

// Fresh returns a name that no other test has. None is part of another.
func Fresh() string { return fmt.Sprintf("lock:%06d", names.Add(1)) }

// WaitFor polls for something that can only be seen from outside.
func WaitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// Result is what a call has returned.
type Result struct {
	Hold *holdfast.Hold
	Err  error
}

// Begin makes a call in a goroutine of its own.
func Begin(call func() (*holdfast.Hold, error)) <-chan Result {
	defer synctest.Wait()
	return begun(func() Result {
		h, err := call()
		return Result{h, err}
	})
}

// OK ends the test if one of the errors is not nil.
func OK(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// NoError is OK for any goroutine: the test goes on.
func NoError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// ErrOf is the error of a call that returns something else, too.
func ErrOf[T any](_ T, err error) error { return err }

// WantDid checks whether a call has done something.
func WantDid(t *testing.T, want bool) func(did bool, err error) {
	t.Helper()
	return func(did bool, err error) {
		t.Helper()
		if did != want || err != nil {
			t.Fatalf("%v, %v; want %v", did, err, want)
		}
	}
}

// Took checks how long something took; says has one %v for that.
func Took(t *testing.T, took, least, most time.Duration, says string) {
	t.Helper()
	if took < least || took > most {
		t.Errorf(says, took)
	}
}

// Calls counts the scripts that a driver sends, by name.
type Calls struct {
	mu sync.Mutex
	n  map[string]int
}

// Count makes a driver count, and returns the counter.
func Count(d *memdriver.Driver) *Calls {
	c := &Calls{}
	d.SetFaults(func(call driver.Call) memdriver.Fault {
		c.Note(call)
		return memdriver.Fault{}
	})
	return c
}

// Note counts a call.
func (c *Calls) Note(call driver.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[call.Script.Name()]++
}

func (c *Calls) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.n)
}

// Of is how often a script was sent.
func (c *Calls) Of(script string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[script]
}

// All is how many scripts were sent.
func (c *Calls) All() (sum int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.n {
		sum += n
	}
	return sum
}

// Must returns the hold of a Lock that has to succeed.
func Must(t *testing.T) func(*holdfast.Hold, error) *holdfast.Hold {
	return func(h *holdfast.Hold, err error) *holdfast.Hold {
		t.Helper()
		OK(t, err)
		return h
	}
}

// Fails checks that an acquire fails, with an error that matches all targets.
func Fails(t *testing.T, targets ...error) func(*holdfast.Hold, error) {
	return func(_ *holdfast.Hold, err error) {
		t.Helper()
		WantError(t, err, targets...)
	}
}

// Unlock gives a hold back, which has to succeed.
func Unlock(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if err := h.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// Turn checks that an acquire succeeds, does what happens inside, and gives back; in any goroutine.
func Turn(t *testing.T, inside ...func()) func(*holdfast.Hold, error) {
	return func(h *holdfast.Hold, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
			return
		}
		for _, f := range inside {
			f()
		}
		Unlock(t, h)
	}
}

// ByMessage is how long what comes by message may take on a busy machine. A waiter that
// missed the message would ask after 3 s.
const ByMessage = 2500 * time.Millisecond

// WantError checks that an error matches all targets.
func WantError(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v does not match %v", err, target)
		}
	}
}

// LostAt returns when the hold was lost, since start; it fails if it is not.
func LostAt(t *testing.T, h *holdfast.Hold, start time.Time) time.Duration {
	t.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(time.Hour):
		t.Fatal("the hold was never lost")
	}
	WantLost(t, h)
	return time.Since(start)
}

// WantLost checks that the hold's context has ended with the reason of its loss.
func WantLost(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	var lost *holdfast.LostError
	if cause := context.Cause(h.Context()); !errors.As(cause, &lost) || lost.Reason == "" || !errors.Is(cause, holdfast.ErrLost) {
		t.Fatalf("cause %v, want a *LostError", cause)
	}
}
