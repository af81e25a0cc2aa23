package driverkit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

var (
	errUnanswered = driver.ConnectionError(errors.New("cut"), false)
	errUnsent     = driver.ConnectionError(errors.New("refused"), true)
	errReplica    = driver.ServerError("READONLY", errors.New("READONLY"))
	errFull       = driver.ServerError("OOM", errors.New("OOM"))
)

// What raises doubt, and that it is resolved once.
func TestDoubt(t *testing.T) {
	for name, row := range map[string]struct {
		err     error
		renewed int
	}{
		"answered": {nil, 0}, "unanswered": {errUnanswered, 1}, "not sent": {errUnsent, 0}, "a replica": {errReplica, 1},
		"another refusal": {errFull, 0}, "no driver's": {errors.New("x"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var d Doubt
			renewed := 0
			renew := func() { renewed++ }
			first := d.Resolve(renew)
			d.Note(first, row.err)
			d.Note(first, row.err)
			second := d.Resolve(renew)
			if d.Note(first, row.err); renewed > 0 { // it used an older connection
				d.Resolve(renew)
			}
			if renewed != row.renewed || (second != first) != (renewed > 0) {
				t.Errorf("renewed %d times, epochs %d and %d", renewed, first, second)
			}
		})
	}
}

// A renewal that has found nothing better leaves the doubt, and is repeated before each call.
func TestDoubtStays(t *testing.T) {
	var d Doubt
	renewed, found := 0, false
	renew := func() {
		if renewed++; !found {
			d.Raise()
		}
	}
	d.Raise()
	for want := 1; want < 5; want++ {
		found = want == 3
		if d.Resolve(renew); renewed != min(want, 3) {
			t.Errorf("renewed %d times, want %d", renewed, min(want, 3))
		}
	}
}

// An adapter may know better than the errors of calls.
func TestRaise(t *testing.T) {
	var d Doubt
	renewed := 0
	renew := func() { renewed++ }
	for want := range 3 {
		d.Resolve(renew)
		if d.Resolve(renew); renewed != want {
			t.Errorf("renewed %d times, want %d", renewed, want)
		}
		d.Raise()
		d.Raise()
	}
}

// A group renews before it sends the call after one that was not answered.
func TestGroupRenews(t *testing.T) {
	for name, row := range map[string]struct {
		patience time.Duration // of the caller, whose call is not answered
		sent     bool
		renewed  int32
	}{
		"unanswered": {time.Second, true, 1}, "left at once": {unanswered / 2, true, 0},
		"without a connection": {time.Second, false, 1}, "left at once without a connection": {unanswered / 2, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				var renewed, sent atomic.Int32
				g := NewGroup(func(calls []*Call) {
					switch sent.Add(1) {
					case 1:
						if row.sent {
							calls[0].Sending()
						}
						time.Sleep(time.Hour) // and then the client gives up
						calls[0].End(nil, errUnanswered)
						return
					case 2:
						if renewed.Load() != row.renewed {
							t.Errorf("sent after %d renewals", renewed.Load())
						}
					}
					for _, c := range calls {
						c.End("reply", nil)
					}
				}, nil, func() { renewed.Add(1) })
				ctx, cancel := context.WithTimeout(t.Context(), row.patience)
				defer cancel()
				if _, err := g.Eval(ctx, callOf("k")); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				for range 3 {
					if reply, err := g.Eval(t.Context(), callOf("k")); reply != "reply" || err != nil {
						t.Error(reply, err)
					}
				}
				time.Sleep(2 * time.Hour) // what the client says then is about an old connection
				if _, err := g.Eval(t.Context(), callOf("k")); err != nil || renewed.Load() > 1 {
					t.Errorf("%v; renewed %d times", err, renewed.Load())
				}
				time.Sleep(time.Second)
				checkNothingLeft(t, g)
			})
		})
	}
}

// A client that says for a second that it is closed is closed; one that says nothing else is at once.
func TestClosed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var c Closed
		if !c.Note(true, true) || c.Note(false, true) {
			t.Error("without another reason")
		}
		for range 3 {
			if c.Note(true, false) {
				t.Error("at once")
			}
			time.Sleep(closedForGood - 1)
			if c.Note(true, false) {
				t.Error("too soon")
			}
			c.Note(false, false) // it has passed
		}
		c.Note(true, false)
		time.Sleep(closedForGood)
		if !c.Note(true, false) {
			t.Error("not after a second")
		}
	})
}

// In a process that is slow to schedule goroutines an answer may wait for its reader, so a missing answer raises no doubt.
func TestBusyProcessRaisesNoDoubt(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var stop atomic.Bool
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop.Store(true)
	for range 30 { // for 10 ms each
		busy.Go(func() {
			for !stop.Load() {
			}
		})
	}
	silent := make(chan struct{})
	defer close(silent)
	g := NewGroup(func(calls []*Call) {
		calls[0].Sending()
		<-silent
		calls[0].End(nil, errUnanswered)
	}, nil, func() { t.Error("the connections are in doubt") })
	ctx, cancel := context.WithTimeout(t.Context(), 2*unanswered)
	defer cancel()
	if _, err := g.Eval(ctx, callOf("k")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	g.Doubt.Resolve(g.renew)
}
