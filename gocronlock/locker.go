package gocronlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// DefaultMinHold is for how long a [Locker] keeps the lock of a job at least, unless it is given
// another [holdfast.MinHold].
const DefaultMinHold = 500 * time.Millisecond

// Locker is a [gocron.Locker], for gocron.WithDistributedLocker and
// gocron.WithDistributedJobLocker. Make one with [NewLocker]. It is safe for concurrent use, also
// by several schedulers.
type Locker struct {
	client  *holdfast.Client
	prefix  string
	options []holdfast.TryOption

	mu   sync.Mutex
	runs map[string][]*run // of each job, those that are held, oldest first
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker. The lock of a job is a mutex by the name of prefix and the job's own:
// jobs of one name are the same job for all programs that use that prefix on that Redis. Give each
// job a name of its own with gocron.WithName, since without it gocron takes the function's, which
// may change.
//
// A lock is kept for [DefaultMinHold] at least, also if the job is done sooner, or another machine
// whose clock is behind would run it once more. Set another [holdfast.MinHold] if clocks differ by
// more. It has to be shorter than the time between two runs, or the next one is skipped. Other
// options are those of [holdfast.Mutex.TryLock], such as [holdfast.RenewedLease]: how long
// a job of a machine that crashed is still taken to run.
func NewLocker(client *holdfast.Client, prefix string, options ...holdfast.TryOption) *Locker {
	options = append([]holdfast.TryOption{holdfast.MinHold(DefaultMinHold)}, options...)
	return &Locker{client: client, prefix: prefix, options: options, runs: map[string][]*run{}}
}

// Lock is called by gocron before each run of a job, and does not wait. An error keeps the
// job from running this time, and is told to gocron.AfterLockError: it matches [holdfast.ErrLocked]
// if the job runs elsewhere, or has run there a moment ago, and is a [*holdfast.BackendError] if
// Redis is not there. The lock is renewed until gocron unlocks it, after the run.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	hold, err := l.client.NewMutex(l.prefix+key).TryLock(ctx, l.options...)
	if err != nil {
		return nil, fmt.Errorf("gocronlock: the job %q is not run: %w", key, err)
	}
	r := &run{locker: l, key: key, hold: hold}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[key] = append(l.runs[key], r)
	return r, nil
}

// Guard wraps the task of a job of that name: its context ends, too, when the job's lock is
// lost, and then it returns an error that matches [holdfast.ErrLost]. The task has to return
// soon after. Where the lock is not held, the task is not run: if the job has another name, or its
// scheduler another locker. That is an error that matches [holdfast.ErrNotHeld].
func (l *Locker) Guard(name string, task Task) Task {
	return func(ctx context.Context) error {
		r := l.guard(name)
		if r == nil {
			return fmt.Errorf("gocronlock: the job %q is not locked by this locker; is that its name? %w", name, holdfast.ErrNotHeld)
		}
		return runUnder(ctx, r.hold, task)
	}
}

// guard returns the run of a job that no guard has had yet. There are two if the lock of
// the first was lost: gocron locks and runs the task on one goroutine, so the first comes first.
func (l *Locker) guard(name string) *run {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs[name] {
		if !r.guarded {
			r.guarded = true
			return r
		}
	}
	return nil
}

// run is a job that runs, or is about to.
type run struct {
	locker  *Locker
	key     string
	hold    *holdfast.Hold
	guarded bool // by locker.mu
}

// Unlock gives the lock back, whatever has become of the context: gocron's has ended when the
// scheduler is shut down.
func (r *run) Unlock(context.Context) error {
	r.locker.forget(r)
	return r.hold.Unlock()
}

func (l *Locker) forget(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[r.key] = slices.DeleteFunc(l.runs[r.key], func(other *run) bool { return other == r })
	if len(l.runs[r.key]) == 0 {
		delete(l.runs, r.key)
	}
}
