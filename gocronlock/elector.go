package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
)

// ErrNotLeader matches the error of [Elector.IsLeader] while another leads, or nobody does.
var ErrNotLeader = errors.New("gocronlock: this process does not lead")

var errClosed = errors.New("the elector is closed")

// Elector is a [gocron.Elector], for gocron.WithDistributedElector. Make one with [NewElector]; the zero Elector panics.
type Elector struct {
	mutex  *holdfast.Mutex
	cancel func()
	ended  chan struct{} // closed when the campaigns are over
	err    error         // what they ended with; after ended

	hold    atomic.Pointer[holdfast.Hold] // while this process leads
	told    sync.Once
	known   chan struct{} // closed when it is known for the first time who leads, or that Redis does not say
	waiting atomic.Bool   // a campaign waits for the lock
	failure atomic.Pointer[error]
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector begins to campaign: whoever holds the mutex of that name leads, until its process
// ends or loses the lock, or [Elector.Close] is called. Another leads within the lease after a
// crash: a short [holdfast.RenewedLease] has it follow soon.
func NewElector(client *holdfast.Client, name string, options ...holdfast.TryOption) *Elector {
	ctx, cancel := context.WithCancelCause(context.Background())
	e := &Elector{
		mutex: client.NewMutex(name), cancel: func() { cancel(errClosed) }, ended: make(chan struct{}), known: make(chan struct{}),
	}
	options = slices.Concat(options, []holdfast.TryOption{holdfast.WithHooks(holdfast.Hooks{
		OnWait: func(context.Context, holdfast.Event) {
			e.waiting.Store(true)
			e.told.Do(func() { close(e.known) })
		},
		OnRefuse: func(context.Context, holdfast.Event) { e.waiting.Store(false) },
		OnError:  func(_ context.Context, event holdfast.Event) { e.failed(event.Err) },
	})})
	go func() {
		defer close(e.ended)
		e.err = holdfast.Lead(ctx, e.mutex, e.lead, options...)
	}()
	return e
}

// lead is called while this process leads, and returns when that is over.
func (e *Elector) lead(ctx context.Context, hold *holdfast.Hold) error {
	e.waiting.Store(false)
	e.failure.Store(nil)
	e.hold.Store(hold)
	e.told.Do(func() { close(e.known) })
	<-ctx.Done()
	e.hold.Store(nil)
	return context.Cause(ctx)
}

func (e *Elector) failed(err error) {
	e.failure.Store(&err)
	e.told.Do(func() { close(e.known) })
}

// mustBeMade panics if NewElector has not made it.
func (e *Elector) mustBeMade() {
	if e.known == nil {
		panic("gocronlock: this Elector is a zero value; make one with NewElector")
	}
}

// IsLeader is called by gocron before each run of a job, and returns nil if this process leads.
// Otherwise the error matches [ErrNotLeader], and wraps what has failed, if anything has. The first
// calls wait until it is known who leads, or ctx ends. After a failure, a call asks Redis whether the
// failure is over, if the campaign goes on waiting for the lock: that takes the client's timeout at
// most.
func (e *Elector) IsLeader(ctx context.Context) error {
	e.mustBeMade()
	select {
	case <-e.known:
	case <-e.ended:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotLeader, context.Cause(ctx))
	}
	if e.leading() != nil {
		return nil
	}
	select {
	case <-e.ended:
		return fmt.Errorf("%w, nor will it: %w", ErrNotLeader, e.err)
	default:
	}
	failure := e.failure.Load()
	if failure == nil {
		return ErrNotLeader
	}
	if !e.waiting.Load() { // the next campaign begins after a pause
		return fmt.Errorf("%w: %w", ErrNotLeader, *failure)
	}
	if _, err := e.mutex.Inspect(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	e.failure.CompareAndSwap(failure, nil)
	return ErrNotLeader
}

// leading is the hold by which this process leads, or nil.
func (e *Elector) leading() *holdfast.Hold {
	if hold := e.hold.Load(); hold != nil && hold.Context().Err() == nil {
		return hold
	}
	return nil
}

// Guard wraps a task: its context ends, too, when this process leads no more, and if the lock was
// lost it returns an error that matches [holdfast.ErrLost]. The task has to return soon
// after. If this process does not lead, the task is not run, and the error matches [ErrNotLeader].
func (e *Elector) Guard(task Task) Task {
	return func(ctx context.Context) error {
		hold := e.leading()
		if hold == nil {
			return ErrNotLeader
		}
		return runUnder(ctx, hold, task)
	}
}

// Close ends the campaign, and gives the lock back if this process leads: shut the scheduler down
// first, which waits for its jobs. It waits until that is done, which the client's timeout bounds.
// Further calls do nothing.
func (e *Elector) Close() {
	e.mustBeMade()
	e.cancel()
	<-e.ended
}
