package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
)

// compositeAcquire is one call of Lock or TryLock of several locks.
type compositeAcquire struct {
	name        string
	kind        string // for hooks
	caller      context.Context
	owners      owners
	config      lockConfig
	started     time.Time
	toldWaiting bool // the hooks know
	handingOut  bool // the hold is handed out, or was: its hooks are told of it
	tries       int  // how often it has asked
	tied        bool // the last try ended at a part that is tied
	left        bool // a part that one of the tries has had, or may have had, may be held still
	// tryParts is one try of a multi-lock, or of a RedLock; held and err are what came of
	// the last one.
	tryParts func(ctx context.Context) (held *Hold, again bool, err error)
	held     *Hold
	err      error
}

// newCompositeAcquire checks what can be checked before anything is sent.
func newCompositeAcquire(ctx context.Context, name, kind string, kinds []*kind, config lockConfig) (*compositeAcquire, error) {
	a := &compositeAcquire{name: name, kind: kind, caller: ctx, config: config, started: time.Now()}
	if config.invalid != nil {
		return nil, config.invalid
	}
	for _, k := range kinds {
		if k.invalid != nil {
			return nil, k.invalid
		}
		if _, err := k.client.config.complete(config); err != nil {
			return nil, err
		}
		if err := k.canHold(config); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, tooLate(ctx, opAcquire, name)
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
		a.owners = append(a.owners, ownerOf{k, owner})
	}
	return nil
}

// owners are those of each part.
type owners []ownerOf

// one returns the owner of all parts; the zero Owner if they have several.
func (all owners) one() (owner Owner) {
	for i, part := range all {
		if i > 0 && part.owner != owner {
			return Owner{}
		}
		owner = part.owner
	}
	return owner
}

// contextOf returns a context that says who holds each part, while h lasts.
func (all owners) contextOf(ctx context.Context, h *Hold) context.Context {
	for i := range all {
		ctx = &heldContext{ctx, &all[i], h} //nolint:fatcontext // one layer a part
	}
	return ctx
}

// bound returns the context that ends when the call has to.
func (a *compositeAcquire) bound() (context.Context, context.CancelFunc) {
	if a.config.wait > 0 {
		return context.WithDeadlineCause(a.caller, a.started.Add(a.config.wait), errWaitOver)
	}
	return context.WithCancel(a.caller)
}

// tryPart are the options to acquire a part with, without waiting.
func (a *compositeAcquire) tryPart() []TryOption {
	config := a.config
	return []TryOption{tryOption(func(c *lockConfig) error {
		c.cuts = true // as fixLease does at the end
		c.lease, c.fixed, c.renewFirst, c.atLeast = config.lease, config.fixed, config.renewFirst, max(config.minHold, config.atLeast)
		return nil
	})}
}

// waitPart are the options to wait for a part with.
func (a *compositeAcquire) waitPart() (options []LockOption) {
	for _, option := range a.tryPart() {
		options = append(options, option)
	}
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
func (a *compositeAcquire) acquire(bound context.Context, tryParts func(context.Context) (*Hold, bool, error)) (*Hold, error) {
	a.tryParts = tryParts
	ended := false
	defer func() {
		if !ended && !a.handingOut {
			a.tellRefused(errHook(a.name))
		}
	}()
	acquireLoop(bound, a)
	ended = true
	if a.err == nil {
		return a.held, nil
	}
	if endedByCaller(a.caller) {
		a.err = gaveUp(a.caller, a.name)
	}
	if failed, ok := a.err.(*BackendError); ok && a.left { //nolint:errorlint // itself
		own := *failed
		own.MayHaveRun = true
		a.err = &own
	}
	a.tellRefused(a.err)
	return nil, a.err
}

func (a *compositeAcquire) tellRefused(err error) {
	e := Event{Name: a.name, Kind: a.kind, Err: err}
	a.course().describe(&e)
	a.config.hooks.tell(a.caller, onRefuse, e)
}

// handOut hands out what was acquired, if enough parts live, and reports whether it did.
func (a *compositeAcquire) handOut(c *composite) bool {
	a.handingOut = true
	a.handingOut = c.handOut(a.course())
	return a.handingOut
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

// try asks for all parts once.
func (a *compositeAcquire) try(ctx context.Context) (again bool) {
	a.tries++
	a.held, again, a.err = a.tryParts(ctx)
	a.left = a.left || mayBeHeld(a.err)
	return again && a.err != nil
}

// inTime makes of an error that comes of the end of the wait what it is.
func (a *compositeAcquire) inTime(bound context.Context, op string, err error) error {
	if err == nil || endedByCaller(a.caller) || bound.Err() == nil || !errors.Is(err, errWaitOver) {
		return err
	}
	return &BackendError{Op: op, Name: a.name, MayHaveRun: true, Err: call.ErrNoAnswer}
}

// mayBeHeld reports whether a part that could not be had may be held all the same: then it is given back in the background.
func mayBeHeld(err error) bool {
	var failed *BackendError
	return errors.As(err, &failed) && failed.MayHaveRun ||
		errors.Is(err, ErrNotReplicated) || errors.Is(err, ErrLost) || errors.Is(err, ErrClosed)
}
