package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// acquisition is one call of Lock or TryLock.
type acquisition struct {
	kind    *kind
	client  *Client
	tenure  *tenure
	caller  context.Context // lives as long as the call
	config  lockConfig
	lease   time.Duration // to ask for
	oneTry  bool
	started time.Time
	// unknown are sends whose effect is not known.
	unknown []*flight
	// last is what Redis, or the lack of it, said last: the error to return when
	// the wait is over.
	last error
}

// acquire is Lock and TryLock of every kind. It is the only acquire loop.
func (c *Client) acquire(ctx context.Context, k *kind, oneTry bool, options []LockOption) (*Hold, error) {
	a, waiting, leave, err := c.enter(ctx, k, oneTry, options)
	if err != nil {
		return nil, err
	}
	defer leave()
	o, count := a.run(waiting)
	return a.conclude(waiting, o, count)
}

// enter begins an acquisition: it checks what it was given, counts the call, and
// takes the tenure's op. It returns the context that bounds the call, and what
// to call at its end.
func (c *Client) enter(ctx context.Context, k *kind, oneTry bool, options []LockOption) (
	a *acquisition, waiting context.Context, leave func(), err error,
) {
	a = &acquisition{kind: k, client: c, caller: ctx, oneTry: oneTry, started: time.Now()}
	owner, err := a.check(options)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := c.begin(ctx, k.name); err != nil {
		return nil, nil, nil, err
	}
	waiting, stop := a.waiting()
	a.tenure = c.tenure(k, owner)
	leave = func() {
		a.tenure.unref()
		stop()
		c.tasks.End()
	}
	if err := a.tenure.takeOp(waiting); err != nil {
		defer leave()
		return nil, nil, nil, a.failure(waiting, outcome{err: err})
	}
	return a, waiting, leave, nil
}

// check refuses what cannot work, before anything is sent.
func (a *acquisition) check(options []LockOption) (Owner, error) {
	if a.kind.invalid != nil {
		return Owner{}, a.kind.invalid
	}
	var err error
	if a.config, err = a.client.lockOptions(options); err != nil {
		return Owner{}, err
	}
	if a.oneTry && a.config.wait > 0 {
		return Owner{}, fmt.Errorf("holdfast: %w: TryLock does not wait; use Lock with Wait", ErrInvalidOption)
	}
	a.oneTry = a.oneTry || a.config.bounded && a.config.wait == 0
	a.lease = a.config.lease
	if a.lease == 0 {
		a.lease = a.client.config.lease
	}
	owner, ok := OwnerFrom(a.caller)
	if !ok {
		return a.client.NewOwner(), nil
	}
	if owner == (Owner{}) {
		return owner, fmt.Errorf("holdfast: %w: the context carries the zero Owner", ErrInvalidOwner)
	}
	return owner, nil
}

// waiting returns the context that bounds the whole call.
func (a *acquisition) waiting() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(a.caller)
	stopClosing := context.AfterFunc(a.client.closing, func() { cancel(ErrClosed) })
	stopTimer := func() bool { return false }
	if a.config.wait > 0 {
		stopTimer = time.AfterFunc(a.config.wait, func() { cancel(errWaitOver) }).Stop
	}
	return ctx, func() { stopClosing(); stopTimer(); cancel(nil) }
}

// run asks Redis until there is an answer to return: nested and single tries
// directly, the others standing in line. count is what was asked for. Op is held.
func (a *acquisition) run(ctx context.Context) (o outcome, count int) {
	base, err := a.standing(ctx)
	if err != nil {
		return outcome{err: err}, 0
	}
	count = base + 1
	ask := a.kind.askAcquire(a.tenure.owner, a.lease, count)
	if count == 1 && !a.oneTry {
		return a.standInLine(ctx, ask), count
	}
	o = a.client.order(ctx, ask)
	a.unknown = append(a.unknown, o.unknown...)
	return o, count
}

// standing returns how many holds the owner has at the lock. For an owner that
// another client made, Redis is asked: it may hold the lock there.
func (a *acquisition) standing(ctx context.Context) (int, error) {
	t := a.tenure
	t.mu.Lock()
	if len(t.holds) > 0 {
		defer t.mu.Unlock()
		return t.base + len(t.holds), t.lost
	}
	t.lost, t.base = nil, 0
	t.mu.Unlock()
	if t.owner.client == a.client.id {
		return 0, nil
	}
	base, err := a.client.countOf(ctx, a.kind, t.owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base = base
	return base, err
}

// conclude makes of the last answer what the caller gets. Op is held, and freed
// or passed on.
func (a *acquisition) conclude(ctx context.Context, o outcome, count int) (*Hold, error) {
	switch {
	case o.err != nil:
		a.client.settle(a.tenure, a.unknown, false)
		return nil, a.failure(ctx, o)
	case o.answer.Code == script.Done:
		return a.granted(o, count)
	case o.answer.Code == script.Gone:
		const reason = "the hold that this one was to be nested in is gone"
		a.tenure.lose(reason)
		a.client.settle(a.tenure, a.unknown, false)
		return nil, &LostError{Name: a.kind.name, Reason: reason}
	default:
		a.client.settle(a.tenure, a.unknown, false)
		return nil, a.lockedError(o)
	}
}

// lockedError says who holds the lock.
func (a *acquisition) lockedError(o outcome) *LockedError {
	refusal := &LockedError{Name: a.kind.name}
	if pttl, err := o.answer.Int(0); err == nil {
		refusal.TTL = time.Duration(pttl) * time.Millisecond
		if pttl < 0 {
			refusal.TTL = -1
		}
	}
	if holder, err := o.answer.Text(1); err == nil {
		refusal.Holder = holder
	}
	return refusal
}

// failure is the error for a call that ended without an answer.
func (a *acquisition) failure(ctx context.Context, o outcome) error {
	err := o.err
	o.unknown = a.unknown
	switch {
	case a.caller.Err() != nil:
		return gaveUp(a.caller, a.kind.name)
	case errors.Is(err, ErrClosed) || errors.Is(context.Cause(ctx), ErrClosed):
		return problem(a.kind.name, "", ErrClosed)
	case errors.Is(err, ErrLost):
		return err
	case errors.Is(err, errWaitOver) && a.last != nil:
		return a.last
	case errors.Is(err, errWaitOver) && o.trouble != nil:
		o.err = o.trouble
	case errors.Is(err, errWaitOver):
		o.err = errNoAnswer
	}
	return o.backendError("acquire", a.kind.name)
}

// granted makes the hold. Op is held, and freed once no earlier send can still
// change the count.
func (a *acquisition) granted(o outcome, count int) (*Hold, error) {
	t, c := a.tenure, a.client
	now := time.Now()
	deadline := c.dog.Trust(o.sent, now, a.lease)
	t.mu.Lock()
	t.onServer = count
	err := a.untrusted(deadline, now)
	if err != nil {
		t.mu.Unlock()
		c.settle(t, a.unknown, true)
		return nil, err
	}
	h := a.hold()
	t.holds[h] = struct{}{}
	if t.entry == nil {
		t.entry = &watchdog.Entry{Ward: t, Group: c.group(a.kind), Lease: c.config.lease}
		if c.config.maxHold > 0 {
			t.entry.Until = o.sent.Add(c.config.maxHold)
		}
		c.dog.Watch(t.entry, o.sent, deadline, h.renewed)
	} else {
		c.dog.Acknowledge(t.entry, deadline)
		c.dog.Renewing(t.entry, t.wantsRenewal())
	}
	t.mu.Unlock()
	t.ref() // the hold's
	c.settle(t, a.unknown, false)
	h.hooks.acquired(Event{Name: a.kind.name, Owner: t.owner, Waited: now.Sub(a.started)})
	return h, nil
}

// untrusted says why a grant is not handed out. t.mu is held.
func (a *acquisition) untrusted(deadline, now time.Time) error {
	switch {
	case a.client.closing.Err() != nil:
		return problem(a.kind.name, "", ErrClosed)
	case a.tenure.lost != nil:
		return a.tenure.lost
	case !deadline.After(now):
		return &LostError{Name: a.kind.name, Reason: "its lease ran out before the answer came"}
	}
	return nil
}

func (a *acquisition) hold() *Hold {
	h := &Hold{
		tenure: a.tenure, since: time.Now(), hooks: a.config.hooks,
		renewed: a.config.lease == 0,
	}
	h.ctx, h.cancel = context.WithCancelCause(WithOwner(a.caller, a.tenure.owner))
	return h
}
