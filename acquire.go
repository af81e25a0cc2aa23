package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// opAcquire is what a [BackendError] calls an acquire.
const opAcquire = "acquire"

// acquisition is one call of Lock or TryLock.
type acquisition struct {
	kind        *kind
	client      *Client
	state       *ownerState
	caller      context.Context // lives as long as the call
	config      lockConfig
	lease       time.Duration // to ask for
	op          string        // for errors
	started     time.Time
	toldWaiting bool // the hooks know
	asked       bool // an attempt has registered as a waiter
	tries       int  // how often that was refused
	// refusedOnce says that Redis has said no to it.
	refusedOnce bool
	// unknown are attempts whose result is not known.
	unknown []*call.Attempt
	// last is the last refusal or connection error: the error to return when the wait
	// is over.
	last error
}

// acquire is Lock and TryLock of every kind. It is the only acquire loop.
func (c *Client) acquire(ctx context.Context, k *kind, config lockConfig) (*Hold, error) {
	started := time.Now()
	h, err := c.acquireWithoutHooks(ctx, k, config)
	if err == nil {
		h.tellAcquired(time.Since(started))
	} else {
		c.tellRefused(ctx, k, config.hooks, started, err)
	}
	return h, err
}

// tellRefused tells the hooks of an acquire that has failed.
func (c *Client) tellRefused(ctx context.Context, k *kind, own hookList, started time.Time, err error) {
	e := Event{Name: k.name, Kind: k.label(), Waited: time.Since(started), Err: err}
	c.config.hooks.tell(ctx, onRefuse, e)
	own.tell(ctx, onRefuse, e)
}

// acquireWithoutHooks is acquire up to the hooks, which run when the call does not count as
// under way any more: they may close the client.
func (c *Client) acquireWithoutHooks(ctx context.Context, k *kind, config lockConfig) (*Hold, error) {
	a, waiting, leave, err := c.enter(ctx, k, config)
	if err != nil {
		return nil, err
	}
	defer leave()
	o, ch := a.run(waiting)
	return a.conclude(waiting, o, ch)
}

// enter begins an acquisition: it checks what it was given, counts the call, and
// takes the owner's op. It returns the context that bounds the call, and what
// to call at its end.
func (c *Client) enter(ctx context.Context, k *kind, config lockConfig) (
	a *acquisition, waiting context.Context, leave func(), err error,
) {
	a = &acquisition{kind: k, client: c, caller: ctx, config: config, op: opAcquire, started: time.Now()}
	owner, err := a.check()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := c.begin(ctx, k.name); err != nil {
		return nil, nil, nil, err
	}
	t := c.ownerState(k, owner)
	a.state = t
	closing := c.draining
	if t.nests() {
		closing = c.closing // what is held goes on, nested holds included
	}
	waiting, stop := a.waiting(closing)
	leave = func() {
		t.unref()
		stop()
		c.tasks.End()
	}
	if err := t.takeOp(waiting); err != nil {
		leave()
		return nil, nil, nil, a.failure(waiting, call.Result{Err: err})
	}
	switch {
	case closing.Err() != nil, a.nothingToNestIn(): // it may have been given back meanwhile
		err = problem(k.name, "", ErrClosed)
	case c.detached(k, owner):
		err = problem(k.name, "this owner's hold was detached, for another owner to adopt", ErrInvalid)
	default:
		return a, waiting, leave, nil
	}
	t.freeOp()
	leave()
	return nil, nil, nil, err
}

// nothingToNestIn reports whether the client shuts down and the owner does not hold the
// lock: then it is not to be acquired, or waited for.
func (a *acquisition) nothingToNestIn() bool {
	return a.client.draining.Err() != nil && !a.state.nests()
}

// nests reports whether the owner holds the lock, or writes and wants to read.
func (t *ownerState) nests() bool {
	return t.handedOut() || t.kind.shared && t.holdsOtherSide()
}

// holdsOtherSide reports whether the owner holds the other side of a read-write lock.
func (t *ownerState) holdsOtherSide() bool {
	side := t.onOtherSide()
	if side == nil {
		return false
	}
	defer side.unref()
	return side.handedOut()
}

// check refuses what cannot work, before anything is sent.
func (a *acquisition) check() (Owner, error) {
	if a.kind.invalid != nil {
		return Owner{}, a.kind.invalid
	}
	var err error
	if a.config, err = a.client.complete(a.config); err != nil {
		return Owner{}, err
	}
	if err = a.kind.canHold(a.config); err != nil {
		return Owner{}, err
	}
	a.lease = max(a.config.lease, a.config.kept())
	return a.kind.ownerFor(a.caller)
}

// waiting returns the context that bounds the whole call.
func (a *acquisition) waiting(closing context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(a.caller)
	stopClosing := context.AfterFunc(closing, func() { cancel(ErrClosed) })
	bound := a.config.wait
	if a.config.oneTry {
		bound = a.client.config.timeout + a.client.config.ackTimeout
	}
	stopTimer := func() bool { return false }
	if bound > 0 {
		stopTimer = time.AfterFunc(bound, func() { cancel(errWaitOver) }).Stop
	}
	return ctx, func() { stopClosing(); stopTimer(); cancel(nil) }
}

// run asks Redis until there is an answer: nested and single tries directly, the
// others after queueing. It returns the change that was asked for. Op is held.
func (a *acquisition) run(ctx context.Context) (o call.Result, ch change) {
	if o.Err = a.clear(ctx); o.Err != nil {
		return o, ch
	}
	if ch, o.Err = a.state.oneMoreCount(); o.Err != nil {
		return o, ch
	}
	if ch.to > 1 && a.kind.config.nonReentrant {
		return call.Result{Err: problem(a.kind.name, "it is NonReentrant", ErrReentrant)}, ch
	}
	if o.Err = a.fitLease(); o.Err != nil {
		return o, ch
	}
	o = a.ask(ctx, ch)
	if o.Has(script.Upgrade) {
		reads, err := a.awaitReaderRelease(ctx)
		if err != nil {
			return call.Result{Err: err}, ch
		}
		if !reads {
			o = a.ask(ctx, ch)
		}
	}
	return o, ch
}

// clear gives back what the owner holds no more and has not been given back yet:
// this acquire has come before, or Redis did not answer for as long as anybody
// tried. Op is held.
func (a *acquisition) clear(ctx context.Context) error {
	ch, found := a.state.surplus()
	if !found {
		return nil
	}
	o := a.client.calls.Do(ctx, a.state.release(ch))
	a.unknown = append(a.unknown, o.Unknown...)
	if o.Err != nil {
		return o.Err
	}
	a.state.released(o, ch)
	a.client.calls.Outlast(ctx, o.Unknown) // or a late one would hit what is acquired now
	return context.Cause(ctx)
}

// awaitReaderRelease waits until what the owner has held for reading, and holds no
// more, is given back, and reports whether it reads all the same, by a hold that is
// handed out. If nothing is known of it here, it may have been given back since the
// answer was made. It returns ctx's cause if that ends first: then nobody knows yet
// whether the owner could have been let in.
func (a *acquisition) awaitReaderRelease(ctx context.Context) (reads bool, err error) {
	reading := a.state.onOtherSide()
	if reading == nil {
		return false, nil
	}
	defer reading.unref()
	if reading.handedOut() {
		return true, nil
	}
	if err := reading.takeOp(ctx); err != nil {
		return false, err
	}
	a.client.reconcile(reading, cleanup{release: true})
	if err := reading.takeOp(ctx); err != nil {
		return false, err
	}
	reading.freeOp()
	return false, nil
}

// ask asks once, or until the lock is acquired.
func (a *acquisition) ask(ctx context.Context, ch change) call.Result {
	w := protocol.Acquire{
		Owner: a.state.owner.String(), From: ch.from, To: ch.to, Lease: a.lease,
		Token: a.wantsToken(), Writes: a.config.writes, Waiting: ch.from == 0 && !a.config.oneTry,
	}
	answered := a.state.expect(a.lease)
	o := a.tryOrQueue(ctx, w)
	known := o
	known.Unknown = a.unknown
	answered(known)
	return o
}

// tryOrQueue asks Redis once, or waits in the queue.
func (a *acquisition) tryOrQueue(ctx context.Context, w protocol.Acquire) call.Result {
	if w.Waiting && !a.triesFirst(w.Owner) {
		return a.waitInQueue(ctx, w)
	}
	first := w
	first.Waiting = w.Waiting && !a.kind.shared // else it may be going to stand behind another
	a.asked = a.asked || first.Waiting
	o := a.client.calls.Do(ctx, a.kind.waits.Acquire(first))
	a.unknown = append(a.unknown, o.Unknown...)
	if refused := o.Has(script.Refused); w.Waiting && (refused || moving(o.Why())) {
		a.refusedOnce = a.refusedOnce || refused
		if refused && a.kind.readOnly {
			_, w.Since, _ = protocol.ReadCount(o.Reply) // else it is about the moment at which it asks
		}
		return a.waitInQueue(ctx, w)
	}
	return o
}

// triesFirst reports whether to try once before queueing: if acquiring changes nothing,
// if the lock is shared and nobody waits here, or if the owner may hold the other side.
func (a *acquisition) triesFirst(owner string) bool {
	_, brought, _ := a.kind.ownerIn(a.caller) // a hold that is lost has been refused before
	return a.kind.otherSide != "" && brought || a.kind.readOnly || a.kind.shared && !a.client.queues.HasWaiters(a.kind.queueKey(owner))
}

// queueKey is which queue of this process an owner waits in.
func (k *kind) queueKey(owner string) string {
	return k.queue + " " + k.name + " " + k.waits.Channel(owner)
}

// wantsToken reports whether a fencing token is to be taken: one for each run of
// holds, or the inner one of two would make the outer one's too old.
func (a *acquisition) wantsToken() bool {
	return a.kind.config.fenced && !a.state.hasToken()
}

// fitLease keeps the lease within what is left of the longest hold.
func (a *acquisition) fitLease() error {
	t := a.state
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.holds) == 0 || t.until.IsZero() {
		return nil
	}
	left := time.Until(t.until).Truncate(time.Millisecond)
	switch {
	case left >= a.lease:
		return nil
	case a.config.fixed, left < a.config.kept():
		return a.client.beyondMaxHold(a.kind.name)
	case left < MinLease:
		return &LostError{Name: a.kind.name, Reason: LostMaxHoldOver}
	}
	a.lease = left
	return nil
}

// conclude makes of the last answer what the caller gets. Op is held, and freed
// or passed on.
func (a *acquisition) conclude(ctx context.Context, o call.Result, ch change) (*Hold, error) {
	if o.Has(script.Done) {
		return a.granted(o, ch)
	}
	if o.Has(script.Changed) {
		a.state.vanished() // nobody else changes this owner's count
		o.Err = a.state.whyLost()
	}
	a.client.reconcile(a.state, cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()})
	switch {
	case o.Err != nil:
		return nil, a.failure(ctx, o)
	case o.Reply.Code == script.Upgrade:
		return nil, problem(a.kind.name, "this owner holds it for reading, and would wait for itself; give that back first", ErrReentrant)
	}
	return nil, a.refusal(o)
}

// refusal is the error for an answer that says no.
func (a *acquisition) refusal(o call.Result) error {
	if a.kind.refusal != nil {
		return a.kind.refusal(o.Reply)
	}
	return a.lockedError(o)
}

// known reports whether Redis may know of a waiter.
func (a *acquisition) known() bool { return a.asked && (a.refusedOnce || len(a.unknown) > 0) }

// leaving is what takes the waiter out of Redis, if Redis may know of one.
func (a *acquisition) leaving() script.Request {
	if !a.known() {
		return script.Request{}
	}
	return a.kind.waits.Leave(a.state.owner.String())
}

// lockedError says who holds the lock.
func (a *acquisition) lockedError(o call.Result) *LockedError {
	found := protocol.ReadRefusal(o.Reply)
	return &LockedError{Name: a.kind.name, Holder: Owner{found.Holder}, TTL: expiry(found.TTL)}
}

// failure is the error for a call that ended without an answer.
func (a *acquisition) failure(ctx context.Context, o call.Result) error {
	err := o.Err
	o.Unknown = a.unknown
	switch {
	case a.caller.Err() != nil:
		return gaveUp(a.caller, a.kind.name)
	case errors.Is(err, ErrClosed) || errors.Is(context.Cause(ctx), ErrClosed):
		return problem(a.kind.name, "", ErrClosed)
	case errors.Is(err, ErrNotHeld) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrReentrant):
		return err // a loss matches ErrNotHeld, too
	case errors.Is(err, errWaitOver) && a.last != nil:
		return a.last
	case errors.Is(err, errWaitOver) && o.LastFailure != nil:
		o.Err = o.LastFailure
	case errors.Is(err, errWaitOver):
		o.Err = call.ErrNoAnswer
	}
	return backendError(a.op, a.kind.name, o)
}

// granted makes the hold. Op is held, and freed.
func (a *acquisition) granted(o call.Result, ch change) (*Hold, error) {
	t, c := a.state, a.client
	now := time.Now()
	deadline := c.watchdog.Trust(o.Sent, now, a.lease)
	t.mu.Lock()
	if err := a.untrusted(o, deadline, now); err != nil {
		t.count = max(t.count, ch.to)
		t.mu.Unlock()
		c.reconcile(t, cleanup{unknown: a.unknown, stood: ch.to, release: true, leave: a.leaving()})
		return nil, err
	}
	t.count = ch.to
	if token, err := o.Reply.Int(0); ch.from == 0 || err == nil && token > 0 {
		t.token = token
	}
	h := a.hold()
	t.holds[h] = struct{}{}
	if t.entry == nil {
		a.watch(h, o.Sent)
	} else {
		c.watchdog.Acknowledge(t.entry, o.Sent, a.lease)
		t.setRenewal()
	}
	if a.config.minHold > 0 {
		t.keptUntil = later(t.keptUntil, now.Add(a.config.minHold))
	}
	t.mu.Unlock()
	t.ref() // the hold's
	t.deferCleanup(cleanup{unknown: a.unknown, stood: ch.to, leave: a.leaving()})
	t.freeOp()
	return h.Hold, nil
}

// watch begins to watch a new run of holds. t.mu is held.
func (a *acquisition) watch(h *single, sent time.Time) {
	t, c := a.state, a.client
	t.until, t.failing = time.Time{}, nil
	if c.config.maxHold > 0 {
		t.until = sent.Add(c.config.maxHold)
	}
	t.entry = &watchdog.Entry{Value: t, Group: c.group(a.kind), Lease: h.lease, Until: t.until, RecheckEvery: a.kind.recheckEvery}
	if h.fixed {
		t.entry.Lease = c.config.lease // for holds that are nested in it, and for pauses
	}
	c.watchdog.Watch(t.entry, sent, a.lease, !h.fixed)
}

// untrusted says why a grant is not handed out. t.mu is held.
func (a *acquisition) untrusted(o call.Result, deadline, now time.Time) error {
	switch {
	case o.Acknowledged < a.client.config.replicas:
		return a.client.notReplicated(a.kind.name, o)
	case a.client.closing.Err() != nil:
		return problem(a.kind.name, "", ErrClosed)
	case a.state.lost != nil:
		return a.state.lost
	case !deadline.After(now):
		return &LostError{Name: a.kind.name, Reason: LostLeaseOver}
	}
	return nil
}

// hold makes a hold of the owner's. state.mu is held.
func (a *acquisition) hold() *single {
	t := a.state
	s := &single{
		Hold: &Hold{
			name: t.kind.name, kind: t.kind.label(), owner: t.owner, since: time.Now(), hooks: a.config.hooks, token: t.token, mu: &t.mu,
		},
		owned: t, caller: a.caller, lease: a.config.lease, fixed: a.config.fixed && !a.config.keep,
	}
	s.held = s
	s.ctx, s.cancel = context.WithCancelCause(a.kind.heldIn(a.caller, t.owner, s.Hold))
	return s
}
