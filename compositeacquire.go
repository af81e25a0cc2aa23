package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
)

// compositeAcquire is one call of Lock or TryLock of several locks.
type compositeAcquire struct {
	*MultiLock

	caller      context.Context
	owners      []ownerOf // of each part
	owner       Owner     // of all parts; zero if they have several
	config      lockConfig
	started     time.Time
	toldWaiting bool // the hooks know
	tries       int  // how often it has asked
	mayHaveRun  bool // in one of the tries, a part was acquired or may have been
	held        *Hold
	err         error     // of the last try
	lockedAt    time.Time // when others were last found to hold a RedLock; zero if they were not
}

// newCompositeAcquire checks what can be checked before anything is sent.
func newCompositeAcquire(ctx context.Context, m *MultiLock, config lockConfig) (*compositeAcquire, error) {
	a := &compositeAcquire{MultiLock: m, caller: ctx, config: config, started: time.Now()}
	if err := cmp.Or(m.invalid, config.invalid); err != nil {
		return nil, err
	}
	for _, p := range m.parts { // m.kinds does not have semaphores, which have no owner
		if s, ok := p.Locker.(*PermitSemaphore); ok {
			if err := s.kind.canHold(config); err != nil {
				return nil, err
			}
		}
	}
	kinds := m.kinds()
	checked := config
	checked.renewFirst = a.renewsFirst()
	for _, k := range kinds {
		if k.invalid != nil {
			return nil, k.invalid
		}
		if _, err := k.client.config.complete(checked); err != nil {
			return nil, err
		}
		if err := k.canHold(config); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, tooLate(ctx, opAcquire, m.name)
	}
	return a, a.own(kinds)
}

// own decides who owns each part: the owner that the caller's context has for it,
// or a new one, one for all parts of a client.
func (a *compositeAcquire) own(kinds []*kind) error {
	fresh := map[*Client]Owner{}
	a.owners = nil
	for _, k := range kinds {
		owner, ok := fresh[k.client]
		if _, has := ownerIn(a.caller, k); has || !ok {
			found, err := ownerFor(a.caller, k)
			if err != nil {
				return err
			}
			if found.disclose() {
				return a.own(kinds)
			}
			owner = found.owner
			if found.fresh {
				fresh[k.client] = owner
			}
		}
		if len(a.owners) == 0 {
			a.owner = owner
		} else if owner != a.owner {
			a.owner = Owner{}
		}
		a.owners = append(a.owners, ownerOf{k, owner})
	}
	return nil
}

// bound returns the context that ends when the call has to.
func (a *compositeAcquire) bound() (context.Context, context.CancelFunc) {
	wait := a.config.wait
	if a.config.oneTry && a.independent {
		wait = a.timeout()
	}
	if wait > 0 {
		return context.WithDeadlineCause(a.caller, a.started.Add(wait), errWaitOver)
	}
	return context.WithCancel(a.caller)
}

// renewsFirst reports whether parts with a fixed lease are renewed until all of them are acquired.
func (a *compositeAcquire) renewsFirst() bool { return a.config.renewFirst || !a.independent }

// tryPart is the option to acquire a part with, without waiting.
func (a *compositeAcquire) tryPart() TryOption {
	return tryOption(func(c *lockConfig) error {
		c.cuts = true // as fixLease does at the end
		c.lease, c.fixed, c.renewFirst, c.atLeast = a.config.lease, a.config.fixed, a.renewsFirst(), a.config.retained()
		return nil
	})
}

// waitPart are the options to wait for a part with.
func (a *compositeAcquire) waitPart() []LockOption {
	options := []LockOption{a.tryPart()}
	if len(a.config.hooks) > 0 {
		options = append(options, WithHooks(Hooks{OnWait: func(_ context.Context, e Event) { a.tellWaiting(e.Ahead) }}))
	}
	if a.config.wait > 0 {
		left := time.Until(a.started.Add(a.config.wait))
		options = append(options, Wait(max(left, time.Millisecond))) // 0 would be one try
	}
	return options
}

// tellWaiting tells the hooks of the call, once, that it has to wait for a part.
func (a *compositeAcquire) tellWaiting(ahead int) {
	if !a.toldWaiting {
		a.toldWaiting = true
		a.config.hooks.tell(a.caller, onWait, Event{Name: a.name, Kind: a.kind, Ahead: ahead})
	}
}

// course is how the acquire went.
func (a *compositeAcquire) course() course {
	return course{started: a.started, hadToWait: a.toldWaiting}
}

// tryPauses are those between two tries of one call: two calls that are in each other's
// way do not stay in step.
var tryPauses = backoff{10 * time.Millisecond, 250 * time.Millisecond}

// acquire tries until it succeeds, is not worth starting over, or bound ends.
func (a *compositeAcquire) acquire(bound context.Context) (*Hold, error) {
	acquireLoop(bound, a)
	if a.err == nil {
		return a.held, nil
	}
	a.err = a.failure()
	e := Event{Name: a.name, Kind: a.kind, Err: a.err}
	a.course().describe(&e)
	a.config.hooks.tell(a.caller, onRefuse, e)
	return nil, a.err
}

// failure is the error of the call, made of that of the last try.
func (a *compositeAcquire) failure() error {
	failed, ok := a.err.(*BackendError) //nolint:errorlint // itself
	switch {
	case endedByCaller(a.caller):
		return gaveUp(a.caller, a.name)
	case ok: // it may be another call's, too
		own := *failed
		own.MayHaveRun = a.mayHaveRun
		return &own
	case errors.Is(a.err, errWaitOver):
		return &BackendError{Op: opAcquire, Name: a.name, MayHaveRun: true, Err: call.ErrNoAnswer}
	}
	return a.err
}

// await pauses, unless it is the first try.
func (a *compositeAcquire) await(ctx context.Context) bool {
	if a.tries == 0 {
		return true
	}
	a.tellWaiting(0)
	call.Sleep(ctx, tryPauses.pause(a.tries-1))
	return ctx.Err() == nil
}

// try asks for the parts once, and gives back what it has got unless that is enough.
func (a *compositeAcquire) try(bound context.Context) (again bool) {
	a.tries++
	if a.independent {
		again, a.err = a.tryQuorum(bound)
	} else {
		again, a.err = a.tryInOrder(bound)
	}
	return again
}

// tryInOrder acquires all parts, one after another. Again says that it is worth starting over, also because a part was
// lost while others were waited for.
func (a *compositeAcquire) tryInOrder(bound context.Context) (again bool, err error) {
	c := newComposite(a)
	giveUp := context.WithoutCancel(bound) // if a hook panics
	defer func() {
		if a.held == nil {
			c.rollback(giveUp)
		}
	}()
	again, err = a.acquireParts(bound, c)
	giveUp = bound
	if err == nil && c.handOut(a.course()) {
		a.held = c.Hold
		return false, nil
	}
	a.mayHaveRun = a.mayHaveRun || len(c.parts()) > 0 || !isRefusal(err)
	if lost := c.alive(); lost != nil { // because an acquired part was
		again, err = errors.Is(lost, ErrLost), lost
	}
	return again && !a.config.oneTry, cmp.Or(err, errWaitOver)
}

// acquireParts acquires all parts. Again says that one was refused that is not to be waited for.
func (a *compositeAcquire) acquireParts(bound context.Context, c *composite) (again bool, err error) {
	for _, p := range a.parts {
		if err := a.acquirePart(bound, c, p); err != nil {
			return p.tied && errors.Is(err, ErrLocked), err
		}
	}
	if !a.config.fixed || a.config.renewFirst { // then whoever asked for this one sees to it
		return false, nil
	}
	if err := c.fixLease(bound, a.config.lease); err != nil {
		return false, &BackendError{Op: opAcquire, Name: a.name, Err: err}
	}
	return false, nil
}

// acquirePart acquires one part. It does not wait for one that is tied: waiting for it while having the one before it
// could be waiting for ever.
func (a *compositeAcquire) acquirePart(bound context.Context, c *composite, p part) error {
	var one *Hold
	var err error
	if a.config.oneTry || p.tied {
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
	failed, ok := err.(*BackendError) //nolint:errorlint // itself
	return ok && !failed.MayHaveRun || isAny(err, ErrLocked, ErrNoPermits, ErrReentrant, ErrInvalid)
}

// isAny reports whether an error matches one of several.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
