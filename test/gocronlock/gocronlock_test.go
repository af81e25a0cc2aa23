package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/gocronlock"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	prefix = "shop:jobs:"
	job    = "nightly"
	// patience is for how long what must happen may take.
	patience = time.Minute
	// lease is the shortest that is renewed in time on a machine that stands still for a while.
	lease = 4 * time.Second
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// connect returns a client with connections of its own, as another machine has them.
func connect(t *testing.T, addr string) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	client, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithTimeout(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close() // in some tests nobody answers any more
		_ = rdb.Close()
	})
	return client
}

// machine is a scheduler with a clock of its own, and one job that is due every hour.
type machine struct {
	clock *clockwork.FakeClock
	job   gocron.Job
	// skipped says that the elector has not let the last run take place.
	skipped bool
	// Each run, and each that was not, is told to one of these.
	ran     chan struct{}
	failed  chan error // the error of the job
	refused chan error // that of its lock
}

func start(t *testing.T, task gocronlock.Task, option gocron.SchedulerOption) *machine {
	t.Helper()
	m := &machine{clock: clockwork.NewFakeClock(), ran: make(chan struct{}, 1), failed: make(chan error, 1), refused: make(chan error, 1)}
	scheduler, err := gocron.NewScheduler(option, gocron.WithClock(m.clock), gocron.WithStopTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scheduler.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	m.job, err = scheduler.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(task), gocron.WithName(job), gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { m.ran <- struct{}{} }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { m.failed <- err }),
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { m.refused <- err }),
	))
	if err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	return m
}

// tick has the next hour begin, once the scheduler is done with the one before: while it still
// takes notes of that, gocron would run the job twice in the next.
func (m *machine) tick(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if err := m.clock.BlockUntilContext(ctx, 1); err != nil {
			t.Fatalf("the scheduler does not wait for the next hour: %v", err)
		}
		next, err := m.job.NextRun()
		if err != nil {
			t.Fatal(err)
		}
		if next.Equal(m.clock.Now().Add(time.Hour)) || m.skipped {
			break // of a run that an elector has had skipped, it takes no notes
		}
		time.Sleep(time.Millisecond) // nobody tells when it is done
	}
	m.clock.Advance(time.Hour)
}

// receive waits for what must come.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("it did not happen: " + what)
		panic("unreachable")
	}
}

func nothing(context.Context) error { return nil }

// TestOneRunATick has three machines, whose clocks differ, come to the same hour, one after the
// other: one runs the job, also if it is done before the next one's clock is there.
func TestOneRunATick(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	first := connect(t, server.Addr())
	var machines []*machine
	for range 3 {
		locker := gocronlock.NewLocker(connect(t, server.Addr()), prefix, holdfast.MinHold(time.Hour))
		machines = append(machines, start(t, locker.Guard(job, nothing), gocron.WithDistributedLocker(locker)))
	}
	for hour := range 3 {
		for i := range machines {
			m := machines[(hour+i)%len(machines)] // each of them is the first once
			m.tick(t)
			if i == 0 {
				receive(t, m.ran, "the run of the first")
				continue
			}
			select {
			case err := <-m.refused:
				if !errors.Is(err, holdfast.ErrLocked) || !strings.Contains(err.Error(), job) {
					t.Errorf("the reason is %v", err)
				}
			case <-m.ran:
				t.Fatal("the job runs twice in one hour")
			case <-time.After(patience):
				t.Fatal("nothing happens")
			}
		}
		// The hour of MinHold is over.
		if gone, err := first.NewMutex(prefix + job).ForceUnlock(t.Context()); err != nil || !gone {
			t.Fatalf("ForceUnlock: %v, %v", gone, err)
		}
	}
}

// TestDefaultMinHold keeps a lock for a moment, and no longer.
func TestDefaultMinHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := gocronlock.NewLocker(connect(t, server.Addr()), prefix), gocronlock.NewLocker(connect(t, server.Addr()), prefix)
	before := time.Now()
	lock, err := one.Lock(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for time.Since(before) < patience {
		lock, err := other.Lock(t.Context(), job)
		if err == nil {
			if kept := time.Since(before); kept < gocronlock.DefaultMinHold || refusals == 0 {
				t.Errorf("it was kept for %v, and %d were refused", kept, refusals)
			}
			if err := lock.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			return
		}
		if !errors.Is(err, holdfast.ErrLocked) {
			t.Fatal(err)
		}
		refusals++
		time.Sleep(20 * time.Millisecond) // nobody tells of the end of a lease
	}
	t.Error("it is never free again")
}

// TestNoOverlap has a job last until another machine's hour has come, and longer.
func TestNoOverlap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	begun, end := make(chan struct{}), make(chan struct{})
	long := gocronlock.NewLocker(connect(t, server.Addr()), prefix, holdfast.MinHold(time.Millisecond))
	one := start(t, long.Guard(job, func(context.Context) error {
		close(begun)
		<-end
		return nil
	}), gocron.WithDistributedLocker(long))
	short := gocronlock.NewLocker(connect(t, server.Addr()), prefix, holdfast.MinHold(time.Millisecond))
	other := start(t, short.Guard(job, nothing), gocron.WithDistributedLocker(short))

	one.tick(t)
	receive(t, begun, "the first run")
	for range 2 {
		other.tick(t)
		if err := receive(t, other.refused, "a refusal"); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("the reason is %v", err)
		}
	}
	close(end)
	receive(t, one.ran, "the end of the first run")
	// gocron gives the lock back after it has told of the end.
	hold, err := connect(t, server.Addr()).NewMutex(prefix+job).Lock(t.Context(), holdfast.Wait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	other.tick(t)
	receive(t, other.ran, "the run elsewhere")
}

// TestJobIsToldOfLoss takes the lock away while the job runs.
func TestJobIsToldOfLoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := gocronlock.NewLocker(connect(t, server.Addr()), prefix, holdfast.RenewedLease(lease))
	begun := make(chan struct{})
	m := start(t, locker.Guard(job, func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return nil // it has stopped, and finds nothing wrong with that
	}), gocron.WithDistributedLocker(locker))
	m.tick(t)
	receive(t, begun, "the run")
	if gone, err := connect(t, server.Addr()).NewMutex(prefix + job).ForceUnlock(t.Context()); err != nil || !gone {
		t.Fatalf("ForceUnlock: %v, %v", gone, err)
	}
	if err := receive(t, m.failed, "the end of the run"); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the job says %v", err)
	}
}

// TestShutdown ends a scheduler, which ends the context of the job; its lock is given back.
func TestShutdown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := gocronlock.NewLocker(connect(t, server.Addr()), prefix, holdfast.MinHold(time.Millisecond))
	begun, cause := make(chan struct{}), make(chan error, 1)
	t.Run("run", func(t *testing.T) {
		start(t, locker.Guard(job, func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		}), gocron.WithDistributedLocker(locker)).tick(t)
		receive(t, begun, "the run")
	})
	if err := receive(t, cause, "the end of the run"); !errors.Is(err, context.Canceled) {
		t.Errorf("the cause is %v", err)
	}
	hold, err := connect(t, server.Addr()).NewMutex(prefix+job).Lock(t.Context(), holdfast.Wait(patience/4)) // less than the lease
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestGuardOfAnotherName does not run what is not locked.
func TestGuardOfAnotherName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := gocronlock.NewLocker(connect(t, server.Addr()), prefix)
	m := start(t, locker.Guard("other", func(context.Context) error {
		t.Error("it runs")
		return nil
	}), gocron.WithDistributedLocker(locker))
	m.tick(t)
	if err := receive(t, m.failed, "the end of the run"); !errors.Is(err, holdfast.ErrNotHeld) || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("the job says %v", err)
	}
}

// TestGuardsTakeTheirOwnRun has the same job once more, after its first lock was lost, while the
// first still runs.
func TestGuardsTakeTheirOwnRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, server.Addr())
	locker := gocronlock.NewLocker(client, prefix, holdfast.RenewedLease(lease), holdfast.MinHold(time.Millisecond))
	first, err := locker.Lock(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewMutex(prefix + job).ForceUnlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := locker.Lock(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	untilLost := locker.Guard(job, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err := untilLost(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the first ends with %v", err)
	}
	if err := locker.Guard(job, func(ctx context.Context) error { return ctx.Err() })(ctx); err != nil {
		t.Errorf("the second ends with %v", err)
	}
	if err := first.Unlock(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("the first is unlocked with %v", err)
	}
	if err := second.Unlock(ctx); err != nil {
		t.Errorf("the second is unlocked with %v", err)
	}
	if err := locker.Guard(job, nothing)(ctx); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestRedisIsAway does not run a job that may run elsewhere.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	locker := gocronlock.NewLocker(connect(t, server.Addr()), prefix)
	m := start(t, locker.Guard(job, nothing), gocron.WithDistributedLocker(locker))
	server.Kill()
	m.tick(t)
	var failed *holdfast.BackendError
	if err := receive(t, m.refused, "a refusal"); !errors.As(err, &failed) {
		t.Errorf("the reason is %v", err)
	}
}
