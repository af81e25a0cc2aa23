package engine

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/instant"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// plainErrors makes errors that match what users match.
type plainErrors struct{}

func (plainErrors) Locked(name, owner string, _ time.Duration) error {
	return lockerr.Problem(name, "held by "+owner, lockerr.Locked)
}

func (plainErrors) Lost(name string, why lockerr.Reason, cause error) error {
	return lockerr.Problem(name, string(why), lockerr.Lost, lockerr.NotHeld, cause)
}

func (plainErrors) WithReason(err, _ error) error { return err }

func (plainErrors) Backend(op, name string, _ bool, why error) error {
	return lockerr.Problem(name, op, why)
}

// nobody is a client of which Redis is told nothing.
type nobody struct{}

func (nobody) WriteIfDue(mono.Time)           {}
func (nobody) Holds(any, []string, mono.Time) {}
func (nobody) Ended(any)                      {}
func (nobody) OutlastedUntil(mono.Time)       {}
func (nobody) Withdraw()                      {}

// newEngine returns an engine on a driver that says yes to everything. It has no goroutine before something is held.
func newEngine(t *testing.T) *Engine {
	return New(Config{
		Driver: instant.Driver{}, ID: "8f4b5a6e-0c1d-8e2f-9a3b-4c5d6e7f8091", Lease: 30 * time.Second, Timeout: 3 * time.Second,
		HandsOver: true, Errors: plainErrors{}, Presence: nobody{},
		Failed: func(_ *Lock, _ string, err error) { t.Errorf("in the background: %v", err) },
	})
}

// bubble runs a test on an engine under fake time. No goroutine may outlive it.
func bubble(t *testing.T, f func(t *testing.T, e *Engine)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		e := newEngine(t)
		f(t, e)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
