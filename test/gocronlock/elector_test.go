package gocronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/gocronlock"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const leader = "shop:leader"

// follow waits until an elector leads.
func follow(t *testing.T, e *gocronlock.Elector) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) { // gocron asks, too
		if e.IsLeader(t.Context()) == nil {
			return
		}
	}
	t.Fatalf("nobody follows: %v", e.IsLeader(t.Context()))
}

// TestLeaderDies has the jobs run on one of two machines, which is cut off, and then on the other.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	dying := gocronlock.NewElector(connect(t, proxy.Addr()), leader, holdfast.RenewedLease(lease))
	t.Cleanup(dying.Close)
	if err := dying.IsLeader(t.Context()); err != nil {
		t.Fatalf("the only one does not lead: %v", err)
	}
	other := gocronlock.NewElector(connect(t, server.Addr()), leader, holdfast.RenewedLease(lease))
	t.Cleanup(other.Close)
	if err := other.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Fatalf("the second one: %v", err)
	}

	begun := make(chan struct{})
	one := start(t, dying.Guard(func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return context.Cause(ctx)
	}), gocron.WithDistributedElector(dying))
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
	if err := dying.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Errorf("both lead: %v", err)
	}
	if err := receive(t, one.failed, "the end of the job that has lost its leader"); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the job says %v", err)
	}
	if err := dying.Guard(nothing)(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Errorf("a job afterwards: %v", err)
	}
	two.tick(t)
	receive(t, two.ran, "the run of the new leader")
}

// TestLeaderCloses gives the lock back at once, and does not lead again.
func TestLeaderCloses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := gocronlock.NewElector(connect(t, server.Addr()), leader)
	if err := one.IsLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := gocronlock.NewElector(connect(t, server.Addr()), leader)
	t.Cleanup(other.Close)
	if err := other.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Fatalf("the second one: %v", err)
	}
	began := time.Now()
	one.Close()
	one.Close()
	follow(t, other)
	if took := time.Since(began); took > 20*time.Second { // the lease is 30 s
		t.Errorf("the other one follows after %v", took)
	}
	if err := one.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
		t.Errorf("the first one leads: %v", err)
	}
}

// TestElectorWithoutRedis says what is wrong, and leads when it is over.
func TestElectorWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
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

// TestElectorOfClosedClient never leads, and says why.
func TestElectorOfClosedClient(t *testing.T) {
	t.Parallel()
	client := connect(t, redistest.Start(t).Addr())
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	e := gocronlock.NewElector(client, leader)
	t.Cleanup(e.Close)
	if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) || !errors.Is(err, holdfast.ErrClosed) {
		t.Errorf("%v", err)
	}
}
