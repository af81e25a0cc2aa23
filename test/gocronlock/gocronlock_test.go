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

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/gocronlock"
	"github.com/holdfast-go/holdfast/goredisdriver"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

const (
	prefix = "shop:jobs:"
	job    = "nightly"
	// patience is for how long what must happen may take.
	patience = time.Minute
	// lease is the shortest that is renewed in time on a machine that stands still for a while.
	lease = 6 * time.Second
)

func TestMain(m *testing.M) { kit.Main(m) }

// serve starts a server for a test that is parallel.
func serve(t *testing.T) *redistest.Server {
	t.Helper()
	t.Parallel()
	return redistest.Start(t)
}

// connect returns a client with connections of its own, as another machine has them.
func connect(t *testing.T, addr string) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	client, err := holdfast.New(goredisdriver.New(rdb), holdfast.WithTimeout(3*time.Second))
	kit.OK(t, err)
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
	m := &machine{
		clock: clockwork.NewFakeClock(),
		ran:   make(chan struct{}, 1), failed: make(chan error, 1), refused: make(chan error, 1),
	}
	scheduler, err := gocron.NewScheduler(option, gocron.WithClock(m.clock), gocron.WithStopTimeout(patience))
	kit.OK(t, err)
	t.Cleanup(func() { kit.OK(t, scheduler.Shutdown()) })
	told := gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { m.ran <- struct{}{} }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { m.failed <- err }),
		gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { m.refused <- err }),
	)
	m.job, err = scheduler.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(task), gocron.WithName(job), told)
	kit.OK(t, err)
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
		kit.OK(t, m.clock.BlockUntilContext(ctx, 1))
		next, err := m.job.NextRun()
		kit.OK(t, err)
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

// locking is a locker of a machine of its own, and a scheduler with the job.
func locking(t *testing.T, addr string, task gocronlock.Task, options ...holdfast.TryOption) *machine {
	t.Helper()
	locker := gocronlock.NewLocker(connect(t, addr), prefix, options...)
	return start(t, locker.Guard(job, task), gocron.WithDistributedLocker(locker))
}

// until is a task that tells when it begins, and ends with its context.
func until(begun chan<- struct{}, end func(ctx context.Context) error) gocronlock.Task {
	return func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return end(ctx)
	}
}

// force takes the lock of the job away, and free waits until it is.
func force(t *testing.T, addr string) {
	t.Helper()
	gone, err := connect(t, addr).NewMutex(prefix + job).ForceUnlock(t.Context())
	if err != nil || !gone {
		t.Fatalf("ForceUnlock: %v, %v", gone, err)
	}
}

func free(t *testing.T, addr string, wait time.Duration) {
	t.Helper()
	kit.Unlock(t, kit.Must(t)(connect(t, addr).NewMutex(prefix+job).Lock(t.Context(), holdfast.Wait(wait))))
}

// TestOneRunATick has three machines, whose clocks differ, come to the same hour, one after the
// other: one runs the job, also if it is done before the next one's clock is there.
func TestOneRunATick(t *testing.T) {
	addr := serve(t).Addr()
	var machines []*machine
	for range 3 {
		machines = append(machines, locking(t, addr, nothing, holdfast.MinHold(time.Hour)))
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
				kit.WantError(t, err, holdfast.ErrLocked)
				if !strings.Contains(err.Error(), job) {
					t.Errorf("the reason is %v", err)
				}
			case <-m.ran:
				t.Fatal("the job runs twice in one hour")
			case <-time.After(patience):
				t.Fatal("nothing happens")
			}
		}
		force(t, addr) // the hour of MinHold is over
	}
}

// TestDefaultMinHold keeps a lock for a moment, and no longer.
func TestDefaultMinHold(t *testing.T) {
	addr := serve(t).Addr()
	one, other := gocronlock.NewLocker(connect(t, addr), prefix), gocronlock.NewLocker(connect(t, addr), prefix)
	before := time.Now()
	lock, err := one.Lock(t.Context(), job)
	kit.OK(t, err)
	kit.OK(t, lock.Unlock(t.Context()))
	refusals := 0
	kit.WaitFor(t, "the end of the lease", func() bool {
		if lock, err = other.Lock(t.Context(), job); err != nil {
			kit.WantError(t, err, holdfast.ErrLocked)
			refusals++
		}
		return err == nil
	})
	if kept := time.Since(before); kept < gocronlock.DefaultMinHold || refusals == 0 {
		t.Errorf("it was kept for %v, and %d were refused", kept, refusals)
	}
	kit.OK(t, lock.Unlock(t.Context()))
}

// TestNoOverlap has a job last until another machine's hour has come, and longer. Nor does it run while Redis is away.
func TestNoOverlap(t *testing.T) {
	server := serve(t)
	addr := server.Addr()
	begun, end := make(chan struct{}), make(chan struct{})
	one := locking(t, addr, func(context.Context) error {
		close(begun)
		<-end
		return nil
	}, holdfast.MinHold(time.Millisecond))
	other := locking(t, addr, nothing, holdfast.MinHold(time.Millisecond))
	one.tick(t)
	receive(t, begun, "the first run")
	for range 2 {
		other.tick(t)
		kit.WantError(t, receive(t, other.refused, "a refusal"), holdfast.ErrLocked)
	}
	close(end)
	receive(t, one.ran, "the end of the first run")
	// gocron gives the lock back after it has told of the end.
	free(t, addr, patience)
	other.tick(t)
	receive(t, other.ran, "the run elsewhere")

	server.Kill()
	other.tick(t)
	var failed *holdfast.BackendError
	if err := receive(t, other.refused, "a refusal"); !errors.As(err, &failed) {
		t.Errorf("the reason is %v", err)
	}
}

// TestShutdown ends a scheduler, which ends the context of the job; its lock is given back.
func TestShutdown(t *testing.T) {
	addr, begun, cause := serve(t).Addr(), make(chan struct{}), make(chan error, 1)
	t.Run("run", func(t *testing.T) {
		locking(t, addr, until(begun, func(ctx context.Context) error {
			cause <- context.Cause(ctx)
			return ctx.Err()
		}), holdfast.MinHold(time.Millisecond)).tick(t)
		receive(t, begun, "the run")
	})
	kit.WantError(t, receive(t, cause, "the end of the run"), context.Canceled)
	free(t, addr, patience/4) // less than the lease
}

// TestGuardsTakeTheirOwnRun has the same job once more, after its first lock was lost, while the
// first still runs. A task that is not locked, or whose name is another, is not run.
func TestGuardsTakeTheirOwnRun(t *testing.T) {
	addr := serve(t).Addr()
	locker := gocronlock.NewLocker(connect(t, addr), prefix, holdfast.RenewedLease(lease), holdfast.MinHold(time.Millisecond))
	first, err := locker.Lock(t.Context(), job)
	kit.OK(t, err)
	force(t, addr)
	second, err := locker.Lock(t.Context(), job)
	kit.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	untilLost := locker.Guard(job, func(ctx context.Context) error {
		<-ctx.Done()
		kit.WantError(t, context.Cause(ctx), holdfast.ErrLost)
		return nil // it has stopped, and finds nothing wrong with that
	})
	kit.WantError(t, untilLost(ctx), holdfast.ErrLost)
	never := func(context.Context) error {
		t.Error("it runs")
		return nil
	}
	err = locker.Guard("other", never)(ctx)
	if kit.WantError(t, err, holdfast.ErrNotHeld); !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("the job says %v", err)
	}
	kit.OK(t, locker.Guard(job, func(ctx context.Context) error { return ctx.Err() })(ctx))
	kit.WantError(t, first.Unlock(ctx), holdfast.ErrLost)
	kit.OK(t, second.Unlock(ctx))
	kit.WantError(t, locker.Guard(job, never)(ctx), holdfast.ErrNotHeld)
}
