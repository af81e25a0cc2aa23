package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/gocronlock"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

const leader = "shop:leader"

// elect is an elector of a machine of its own.
func elect(t *testing.T, addr string, options ...holdfast.TryOption) *gocronlock.Elector {
	t.Helper()
	e := gocronlock.NewElector(connect(t, addr), leader, options...)
	t.Cleanup(e.Close)
	return e
}

// follow waits until an elector leads, as gocron asks.
func follow(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	kit.WaitFor(t, "the next leader", func() bool { return e.IsLeader(t.Context()) == nil })
}

// TestLeaderDies has the jobs run on one of two machines, which is cut off, and then on the other.
func TestLeaderDies(t *testing.T) {
	server := serve(t)
	proxy := redistest.NewProxy(t, server.Addr())
	dying := elect(t, proxy.Addr(), holdfast.RenewedLease(lease))
	kit.OK(t, dying.IsLeader(t.Context()))
	other := elect(t, server.Addr(), holdfast.RenewedLease(lease))
	kit.WantError(t, other.IsLeader(t.Context()), gocronlock.ErrNotLeader)

	begun := make(chan struct{})
	one := start(t, dying.Guard(until(begun, context.Cause)), gocron.WithDistributedElector(dying))
	two := start(t, other.Guard(nothing), gocron.WithDistributedElector(other))
	two.tick(t)
	two.skipped = true
	one.tick(t)
	receive(t, begun, "the run of the leader")
	select {
	case <-two.ran:
		t.Error("one that does not lead runs the job")
	default: // it was asked before the leader was
	}

	proxy.BlackHole(redistest.ToServer, true)
	proxy.BlackHole(redistest.ToClient, true)
	follow(t, other)
	kit.WantError(t, dying.IsLeader(t.Context()), gocronlock.ErrNotLeader)
	kit.WantError(t, receive(t, one.failed, "the end of the job that has lost its leader"), holdfast.ErrLost)
	kit.WantError(t, dying.Guard(nothing)(t.Context()), gocronlock.ErrNotLeader)
	two.tick(t)
	receive(t, two.ran, "the run of the new leader")
}

// TestLeaderCloses gives the lock back at once, and does not lead again. Nor does the elector of a client that is closed.
func TestLeaderCloses(t *testing.T) {
	addr := serve(t).Addr()
	one := elect(t, addr)
	kit.OK(t, one.IsLeader(t.Context()))
	other := elect(t, addr)
	kit.WantError(t, other.IsLeader(t.Context()), gocronlock.ErrNotLeader)
	began := time.Now()
	one.Close()
	one.Close()
	follow(t, other)
	if took := time.Since(began); took > 20*time.Second { // the lease is 30 s
		t.Errorf("the other one follows after %v", took)
	}
	kit.WantError(t, one.IsLeader(t.Context()), gocronlock.ErrNotLeader)

	client := connect(t, addr)
	kit.OK(t, client.Close())
	e := gocronlock.NewElector(client, leader)
	t.Cleanup(e.Close)
	kit.WantError(t, e.IsLeader(t.Context()), gocronlock.ErrNotLeader, holdfast.ErrClosed)
}

// TestElectorWithoutRedis says what is wrong, and leads when it is over.
func TestElectorWithoutRedis(t *testing.T) {
	server := serve(t)
	client := connect(t, server.Addr())
	server.Kill()
	e := gocronlock.NewElector(client, leader)
	t.Cleanup(e.Close)
	var failed *holdfast.BackendError
	if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.As(err, &failed) {
		t.Errorf("without Redis: %v", err)
	}
	server.Restart()
	follow(t, e)
}

// refusal waits until the error of IsLeader has a failure of Redis in it, or has none.
func refusal(t *testing.T, e *gocronlock.Elector, failed bool) {
	t.Helper()
	kit.WaitFor(t, "another answer of IsLeader", func() bool {
		err := e.IsLeader(t.Context())
		kit.WantError(t, err, gocronlock.ErrNotLeader)
		var backend *holdfast.BackendError
		return errors.As(err, &backend) == failed
	})
}

// TestElectorForgetsFailures has another process lead before and after an outage: IsLeader says what has failed while it
// lasts, and no longer.
func TestElectorForgetsFailures(t *testing.T) {
	server := serve(t)
	leads := elect(t, server.Addr())
	kit.OK(t, leads.IsLeader(t.Context()))
	proxy := redistest.NewProxy(t, server.Addr())
	follower := elect(t, proxy.Addr())
	refusal(t, follower, false)
	proxy.BlackHole(redistest.ToServer, true)
	proxy.BlackHole(redistest.ToClient, true)
	refusal(t, follower, true)
	late := elect(t, proxy.Addr()) // its campaign begins without Redis
	refusal(t, late, true)
	proxy.BlackHole(redistest.ToServer, false)
	proxy.BlackHole(redistest.ToClient, false)
	refusal(t, follower, false)
	refusal(t, late, false)
	kit.OK(t, leads.IsLeader(t.Context()))
}

// TestElectorForgetsALoss has the leader lose its lock to another: once it waits again, it says only that it does not lead.
func TestElectorForgetsALoss(t *testing.T) {
	addr := serve(t).Addr()
	failed := make(chan error, 1)
	e := elect(t, addr, holdfast.WithHooks(holdfast.Hooks{OnError: func(_ context.Context, event holdfast.Event) { failed <- event.Err }}))
	kit.OK(t, e.IsLeader(t.Context()))
	other := elect(t, addr)
	kit.WantError(t, other.IsLeader(t.Context()), gocronlock.ErrNotLeader) // it waits
	kit.Force(t, connect(t, addr).NewMutex(leader))
	kit.WantError(t, receive(t, failed, "the loss"), holdfast.ErrLost)
	follow(t, other)
	kit.WaitFor(t, "no word of the loss", func() bool {
		err := e.IsLeader(t.Context())
		kit.WantError(t, err, gocronlock.ErrNotLeader)
		return !errors.Is(err, holdfast.ErrLost)
	})
}

// TestZeroElector: a zero Elector panics, and says how to make one, instead of waiting for ever.
func TestZeroElector(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(e *gocronlock.Elector){
		"IsLeader": func(e *gocronlock.Elector) { _ = e.IsLeader(t.Context()) },
		"Close":    func(e *gocronlock.Elector) { e.Close() },
	} {
		func() {
			defer func() {
				if said, ok := recover().(string); !ok || !strings.Contains(said, "make one with NewElector") {
					t.Errorf("%s panics: %q", name, said)
				}
			}()
			call(&gocronlock.Elector{})
		}()
	}
}
