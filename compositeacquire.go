package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/lockerr"
)

// compositeAcquire is one call of Lock or TryLock of several locks.
type compositeAcquire struct {
	*MultiLock

	caller     context.Context
	handles    []*handle          // of the parts
	owners     []Owner            // of each of them
	fresh      map[*Client]string // the owners that are new
	config     lockConfig
	started    time.Time
	hadToWait  bool // the hooks know
	mayHaveRun bool // in one of the tries, a part was acquired or may have been
	held       *Hold
	err        error     // of the last try
	lockedAt   time.Time // when others were last found to hold a RedLock; zero if they were not
}

// newCompositeAcquire checks what can be checked before anything is sent.
func newCompositeAcquire(ctx context.Context, m *MultiLock, config lockConfig) (*compositeAcquire, error) {
	a := &compositeAcquire{MultiLock: m, caller: ctx, config: config, started: time.Now()}
	if err := cmp.Or(m.made().invalid, config.invalid); err != nil {
		return nil, err
	}
	for _, p := range m.parts { // m.handles does not have semaphores, which have no owner
		if s, ok := p.Locker.(*PermitSemaphore); ok && config.Retained() > 0 {
			return nil, s.handle.made().canRetain(&config)
		}
	}
	a.handles = m.handles()
	for _, l := range a.handles {
		checked := config
		checked.RenewFirst = a.renewsFirst()
		if err := l.complete(&checked); err != nil {
			return nil, err
		}
	}
	if err := engine.TooLate(ctx, engine.OpAcquire, m.name, engineErrors{}); err != nil {
		return nil, err
	}
	return a, a.own()
}

// own decides who owns each part: the owner that the caller's context has for it,
// or a new one, one for all parts of a client.
func (a *compositeAcquire) own() error {
	a.fresh = map[*Client]string{}
	for _, l := range a.handles {
		owner, found, err := engine.OwnerFor(a.caller, &l.Lock, a.fresh[l.client])
		if err != nil {
			return err
		}
		if !found {
			a.fresh[l.client] = owner
		}
		a.owners = append(a.owners, Owner{owner})
	}
	return nil
}

// bound returns the context that ends when the call has to.
func (a *compositeAcquire) bound() (context.Context, context.CancelFunc) {
	wait := a.config.Wait
	if a.config.OneTry && a.independent {
		wait = a.timeout()
	}
	if wait > 0 {
		return context.WithDeadlineCause(a.caller, a.started.Add(wait), engine.ErrWaitOver)
	}
	return context.WithCancel(a.caller)
}

// renewsFirst reports whether parts with a fixed lease are renewed until all of them are acquired.
func (a *compositeAcquire) renewsFirst() bool { return a.config.RenewFirst || !a.independent }

// ackTimeout is the longest time that replicas have to acknowledge a part.
func (a *compositeAcquire) ackTimeout() (longest time.Duration) {
	for _, l := range a.handles {
		longest = max(longest, l.Engine.AckTimeout)
	}
	return longest
}

// tryPart is the option to acquire a part with, without waiting.
func (a *compositeAcquire) tryPart() TryOption {
	return tryOption(func(c *lockConfig) error {
		c.Cuts = true // as fixLease does at the end
		c.Lease, c.Fixed, c.RenewFirst, c.AtLeast = a.config.Lease, a.config.Fixed, a.renewsFirst(), a.config.Retained()
		return nil
	})
}

// waitPart are the options to wait for a part with.
func (a *compositeAcquire) waitPart() []LockOption {
	options := []LockOption{a.tryPart()}
	if len(a.config.hooks) > 0 {
		options = append(options, WithHooks(Hooks{OnWait: func(_ context.Context, e Event) { a.tellWaiting(e.Ahead, e.Err) }}))
	}
	if a.config.Wait > 0 {
		left := time.Until(a.started.Add(a.config.Wait))
		options = append(options, Wait(max(left, time.Millisecond))) // 0 would be one try
	}
	return options
}

// tellWaiting tells the hooks of the call, once, that it has to wait for a part.
func (a *compositeAcquire) tellWaiting(ahead int, why error) {
	if !a.hadToWait {
		a.hadToWait = true
		a.config.hooks.tell(a.caller, onWait, Event{Name: a.name, Kind: a.label, Ahead: ahead, Err: why})
	}
}

// report is how the acquire went.
func (a *compositeAcquire) report() report {
	return report{a.started, engine.Report{HadToWait: a.hadToWait}}
}

// tryPauses are those between two tries of one call: two calls that are in each other's
// way do not stay in step.
var tryPauses = engine.Backoff{First: 10 * time.Millisecond, Longest: 250 * time.Millisecond}

// acquire tries until it succeeds, is not worth starting over, or bound ends.
func (a *compositeAcquire) acquire(bound context.Context) (*Hold, error) {
	for again, tries := true, 0; again; tries++ {
		if tries > 0 {
			a.tellWaiting(0, a.err)
			if call.Sleep(bound, tryPauses.Pause(tries-1)); bound.Err() != nil {
				break
			}
		}
		before, began := a.err, time.Now()
		if a.independent {
			again, a.err = a.tryQuorum(bound)
		} else {
			again, a.err = a.tryInOrder(bound)
		}
		if before != nil && a.err != nil && engine.EndedByCaller(a.caller) && time.Since(began) < call.Patience(a.caller, false, a.ackTimeout()) {
			a.err = before // this try was too short for a reply
		}
	}
	if a.err == nil {
		return a.held, nil
	}
	a.err = a.failure()
	e := Event{Name: a.name, Kind: a.label, Err: a.err}
	a.report().describe(&e)
	a.config.hooks.tell(a.caller, onRefuse, e)
	return nil, a.err
}

// failure is the error of the call, made of that of the last try.
func (a *compositeAcquire) failure() error {
	failed, ok := a.err.(*BackendError) //nolint:errorlint // itself
	switch {
	case engine.EndedByCaller(a.caller):
		if gaveUp, is := a.err.(*gaveUpError); is { //nolint:errorlint // itself: that of a part
			failed, ok = gaveUp.why.(*BackendError)
		}
		why := a.err
		if ok {
			why = a.asWhole(failed)
		}
		return engineErrors{}.WithReason(engine.ContextError(a.caller, a.name), why)
	case ok: // it may be another call's, too
		return a.asWhole(failed)
	case errors.Is(a.err, engine.ErrWaitOver):
		return &BackendError{Op: engine.OpAcquire, Name: a.name, MayHaveRun: true, Err: call.ErrNoAnswer}
	}
	return a.err
}

// asWhole returns a failure with the effect that the whole call may have had.
func (a *compositeAcquire) asWhole(failed *BackendError) error {
	own := *failed
	own.MayHaveRun = a.mayHaveRun
	return &own
}

// tryInOrder acquires all parts, one after another. Again says that it is worth starting over, also because a part was
// lost while others were waited for.
func (a *compositeAcquire) tryInOrder(bound context.Context) (again bool, err error) {
	c := newComposite(a)
	rollbackBound := context.WithoutCancel(bound) // if a hook panics
	defer func() {
		if a.held == nil {
			c.rollback(rollbackBound)
		}
	}()
	stop := a.endAtShutdown(c)
	defer stop() // if a hook panics
	again, err = a.acquireParts(bound, c)
	stop() // what is handed out is a hold, which Shutdown waits for
	rollbackBound = bound
	if err == nil && a.handOut(c) {
		return false, nil
	}
	a.mayHaveRun = a.mayHaveRun || len(c.parts()) > 0 || !isRefusal(err)
	if lost := c.Err(); lost != nil { // because an acquired part was
		again, err = errors.Is(lost, ErrLost), lost
	}
	return again && !a.config.OneTry, cmp.Or(err, engine.ErrWaitOver)
}

// handOut makes a composite the hold that the call returns, if enough parts live, and reports whether it did.
func (a *compositeAcquire) handOut(c *composite) bool {
	if !c.begin() {
		return false
	}
	if a.config.MinHold > 0 {
		c.RetainUntil(c.Since().Add(a.config.MinHold))
	}
	c.hold.tellAcquired(a.report())
	a.held = c.hold
	return true
}

// endAtShutdown has a try end when one of the clients shuts down, until stop is called: what it has of that client is waited for.
func (a *compositeAcquire) endAtShutdown(c *composite) (stop func()) {
	var stops []func() bool
	for _, p := range a.parts {
		if p.handle != nil && a.fresh[p.handle.client] != "" { // else it is nested in what goes on
			closed := lockerr.Problem(p.Name(), "", ErrClosed)
			stops = append(stops, context.AfterFunc(p.handle.Engine.Draining, func() { c.partFailed(closed) }))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// acquireParts acquires all parts. Again says that one was refused that is not to be waited for.
func (a *compositeAcquire) acquireParts(bound context.Context, c *composite) (again bool, err error) {
	for _, p := range a.parts {
		if err := a.acquirePart(bound, c, p); err != nil {
			return p.tied && errors.Is(err, ErrLocked), err
		}
	}
	if !a.config.Fixed || a.config.RenewFirst { // then whoever asked for this one sees to it
		return false, nil
	}
	err = c.FixLease(bound, a.config.Lease)
	switch {
	case err == nil:
		return false, nil
	case engine.EndedByCaller(a.caller) && !isBackend(err):
		return false, context.Cause(a.caller) // Redis may just have been about to reply
	}
	return false, &BackendError{Op: engine.OpAcquire, Name: a.name, Err: err}
}

// acquirePart acquires one part. It does not wait for one that is tied: waiting for it while having the one before it
// could be waiting for ever.
func (a *compositeAcquire) acquirePart(bound context.Context, c *composite, p part) error {
	var one *Hold
	var err error
	if a.config.OneTry || p.tied {
		stop := context.AfterFunc(bound, func() { c.abandon() })
		defer stop()
		one, err = p.TryLock(c.ctx, a.tryPart())
	} else {
		one, err = p.Lock(c.ctx, a.waitPart()...)
	}
	if err == nil {
		c.join(one)
	}
	return err
}

// isRefusal reports whether an error of a part says that it was certainly not acquired.
func isRefusal(err error) bool {
	if gaveUp, ok := err.(*gaveUpError); ok { //nolint:errorlint // itself
		err = gaveUp.why
	}
	failed, ok := err.(*BackendError) //nolint:errorlint // itself
	return ok && !failed.MayHaveRun || isAny(err, ErrLocked, ErrNoPermits, ErrReentrant, ErrInvalid)
}

// isBackend reports whether an error is or wraps a [*BackendError].
func isBackend(err error) bool { return errors.As(err, new(*BackendError)) }

// isAny reports whether an error matches one of several.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
