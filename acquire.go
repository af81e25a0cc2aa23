package holdfast

import (
	"cmp"
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// opAcquire is what a [BackendError] calls an acquire.
const opAcquire = "acquire"

// acquisition is one call of Lock or TryLock.
type acquisition struct {
	kind        *kind
	client      *Client
	state       *ownerState
	claim       claim
	caller      context.Context // lives as long as the call
	shutdown    context.Context // ends it, too: draining, or closing if it was nested when it began
	bounded     context.Context // see bound; nil: it was not needed
	stop        func()          // ends bounded
	config      lockConfig
	lease       time.Duration // to ask for
	op          string        // for errors
	started     time.Time
	toldWaiting bool // the hooks know
	registered  bool // a try has registered it as a waiter
	// writes is what the watchdog has of the owner's write holds, if this is to read in them; nil: there are none
	writes *entry
	// writesEnd is when WithMaxHold ends those, and with them what is nested in them; zero: no bound.
	writesEnd mono.Time
	// refusedOnce says that Redis has said no to it.
	refusedOnce bool
	// unknown are attempts whose result is not known.
	unknown []*call.Attempt
	// queue waits for its hold to be handed over; nil if none does.
	queue *waitqueue.Queue
	// received is the hold that was handed over to it; nil if none was.
	received *single
	// last is the last refusal or connection error: the error to return when the wait
	// is over.
	last error
}

// acquire is Lock and TryLock of every kind.
func acquire(ctx context.Context, k *kind, config lockConfig) (*Hold, error) {
	how := course{started: time.Now()}
	h, err := doAcquire(ctx, k, config, &how)
	if err != nil {
		err = k.client.withHolder(ctx, err)
		tellRefused(ctx, k, config.hooks, how, err)
		return nil, err
	}
	h.tellAcquired(how)
	return h, nil
}

// doAcquire is acquire without what the hooks are told of its end. It notes how the acquire went.
func doAcquire(ctx context.Context, k *kind, config lockConfig, how *course) (*Hold, error) {
	a, err := enter(ctx, k, config, how.started)
	if err != nil {
		return nil, err
	}
	defer a.leave()
	if a.received != nil { // it has joined others
		how.handedOver = true
		return &a.received.Hold, nil
	}
	h, err := a.run()
	how.handedOver, how.hadToWait = a.received != nil, a.toldWaiting
	return h, err
}

// enter begins an acquisition: it checks what it was given, counts the call, and takes the owner's changeSem, for which it
// may have to wait. It is paired with calls of conclude, which frees changeSem, and of leave; if it has joined others,
// received is set, and only leave is called.
func enter(ctx context.Context, k *kind, config lockConfig, started time.Time) (*acquisition, error) {
	c := k.client
	a := &acquisition{kind: k, client: c, caller: ctx, config: config, op: opAcquire, started: started}
	if err := a.check(); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, a.op, k.name); err != nil {
		return nil, err
	}
	c.presence.WriteIfDue(mono.Of(a.started))
	if a.join() {
		return a, nil
	}
	s := stateOf(k, a.claim.owner)
	a.state = s
	if a.shutdown = c.draining; a.nests() {
		a.shutdown = c.closing
	}
	if err := a.takeChangeSem(); err != nil {
		a.leave()
		return nil, err
	}
	err := a.claim.over() // since it was found: what it stood for may be another's now
	switch {
	case err != nil:
		err = a.failure(call.Result{Err: err})
	case !s.claimed(a.claim):
		err = problem(k.name, "this owner is another call's; Hold.Owner says whose a hold is", ErrInvalid)
	case a.shutdown.Err() != nil:
		err = problem(k.name, "", ErrClosed)
	case c.retired.has(k, a.claim.owner):
		err = problem(k.name, "nobody may lock as this owner: its hold was detached, or MinHold keeps the lock", ErrInvalid)
	default:
		return a, nil
	}
	s.freeChangeSem()
	a.leave()
	return nil, err
}

// takeChangeSem takes the owner's changeSem, and waits for it if it is taken.
func (a *acquisition) takeChangeSem() error {
	if a.state.tryChangeSem() {
		return nil
	}
	if err := a.state.takeChangeSem(a.bound()); err != nil {
		a.last = a.state.busyError()
		return a.failure(call.Result{Err: err})
	}
	return nil
}

// leave ends the acquisition.
func (a *acquisition) leave() {
	if a.state != nil {
		a.state.unref()
	}
	if a.stop != nil {
		a.stop()
	}
	a.client.tasks.End()
}

// check refuses what cannot work, before anything is sent.
func (a *acquisition) check() (err error) {
	if a.kind.invalid != nil {
		return a.kind.invalid
	}
	if a.config, err = a.client.config.complete(a.config); err != nil {
		return err
	}
	if err = a.kind.canHold(a.config); err != nil {
		return err
	}
	a.lease = a.wantedLease()
	a.claim, err = ownerFor(a.caller, a.kind)
	return err
}

// run asks Redis until there is an answer, and concludes the acquire; also if OnWait panics: then nobody gets what it has
// acquired, and it is given back. changeSem is held, and freed or passed on.
func (a *acquisition) run() (h *Hold, err error) {
	ch, err := a.nextChange()
	if err != nil {
		return a.conclude(call.Result{Err: err}, ch)
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		if h, err := a.conclude(call.Result{Err: context.Canceled}, ch); err == nil { // it was handed over
			_, _ = h.held.unlock()
		}
	}()
	res := a.ask(ch)
	returned = true
	return a.conclude(res, ch)
}

// ask asks Redis until there is an answer: nested and single tries directly, the others after queueing. changeSem is held.
func (a *acquisition) ask(ch change) call.Result {
	if ch.to > 1 && a.kind.config.nonReentrant {
		return call.Result{Err: problem(a.kind.name, "it is NonReentrant", ErrReentrant)}
	}
	a.writes, a.writesEnd = a.writesIn()
	if err := a.fitLease(ch); err != nil {
		return call.Result{Err: err}
	}
	res := a.obtainBesideReads(ch)
	if res.Has(script.Changed) {
		res.Err = a.changed(res, ch)
	}
	return res
}

// changed is the error for an acquire that finds another count in Redis than was thought, or not what its owner writes, which
// it was to be nested in; nil if what its owner holds is lost.
func (a *acquisition) changed(res call.Result, ch change) error {
	if found, known := protocol.FoundCount(res.Reply); a.writes != nil && known && found == ch.from {
		return a.loseWrites() // its own side is as it was thought: the writer is missing
	}
	return a.claim.over()
}

// outlastEarlier waits until no attempt before can have an effect any more: none of this acquire, nor of those
// before it. changeSem is held.
func (a *acquisition) outlastEarlier() error {
	ctx := a.bound()
	a.state.outlastDeferred(ctx)
	a.client.calls.Outlast(ctx, a.unknown)
	return context.Cause(ctx)
}

// obtainBesideReads is obtain, once more if what the owner has held for reading, and holds no more, was in the way.
func (a *acquisition) obtainBesideReads(ch change) call.Result {
	res := a.obtain(ch)
	if !res.Has(script.Upgrade) {
		return res
	}
	switch reads, err := a.awaitReaderRelease(a.bound()); {
	case err != nil:
		return call.Result{Err: err}
	case reads:
		return res
	}
	return a.obtain(ch)
}

// nextChange returns the change to ask for, after it has given back what the owner holds no
// more. changeSem is held.
func (a *acquisition) nextChange() (change, error) {
	for {
		if err := a.clear(); err != nil {
			return change{}, err
		}
		ch, ok, err := a.state.oneMoreCount()
		if err = cmp.Or(a.claim.over(), err); ok || err != nil { // else a hold was unlocked just now
			return ch, err
		}
	}
}

// clear gives back what no hold needs any more: an Unlock waits for changeSem behind this acquire, or Redis has not
// answered to it for as long as that was tried. After that, an attempt of an earlier acquire could find just the count
// that it was to raise, so it is waited for first. changeSem is held.
func (a *acquisition) clear() error {
	if _, found := a.state.surplus(); !found {
		return nil
	}
	if err := a.outlastEarlier(); err != nil {
		return err
	}
	ch, found := a.state.surplus()
	if !found {
		return nil
	}
	ctx := a.bound()
	res := a.client.calls.Do(ctx, a.state.release(ch))
	a.unknown = append(a.unknown, res.Unknown...)
	a.state.released(res, ch)
	if res.Err != nil {
		return res.Err
	}
	a.client.calls.Outlast(ctx, res.Unknown) // or a delayed one would hit what is acquired now
	return context.Cause(ctx)
}

// obtain asks once, or until the lock is acquired.
func (a *acquisition) obtain(ch change) call.Result {
	args := protocol.Acquire{
		Owner: a.state.owner.String(), From: ch.from, To: ch.to, Lease: a.lease,
		Token: a.wantsToken(), Writes: a.writes != nil, Waiting: ch.from == 0 && !a.config.oneTry,
	}
	return a.tryOrQueue(args)
}

// tryOrQueue asks Redis once, or waits in the queue.
func (a *acquisition) tryOrQueue(args protocol.Acquire) call.Result {
	if args.Waiting && !a.triesFirst(args.Owner) {
		return a.waitInQueue(args)
	}
	first := args
	first.Waiting = args.Waiting && !a.kind.shared // else it may be going to stand behind another
	a.registered = a.registered || first.Waiting
	res := a.askBriefly(a.kind.requests.Acquire(first))
	a.unknown = append(a.unknown, res.Unknown...)
	if refused := res.Has(script.Refused); args.Waiting && (refused || moving(res.Why())) {
		a.refusedOnce = a.refusedOnce || refused
		if refused && a.kind.readOnly {
			_, args.Since, _ = protocol.ReadCount(res.Reply) // else it is about the moment at which it asks
		}
		return a.waitInQueue(args)
	}
	return res
}

// askBriefly asks, without bound if the first attempt is answered.
func (a *acquisition) askBriefly(request script.Request) call.Result {
	patience := a.client.config.timeout / 3
	if limit := a.timeLimit(); limit > 0 {
		if patience = min(patience, time.Until(a.started.Add(limit))); patience <= 0 {
			return call.Result{Err: errWaitOver}
		}
	}
	a.expect()
	ctx := a.caller
	if a.bounded != nil {
		ctx = a.bounded
	}
	res := a.client.calls.DoBriefly(ctx, patience, a.bound, request)
	a.answered(res)
	return res
}

// expect notes that the key may live for as long as the lease, since it is asked for.
func (a *acquisition) expect() {
	if a.state != nil {
		a.state.expect(a.lease)
	}
}

// answered notes what is known of that now.
func (a *acquisition) answered(res call.Result) {
	if a.state != nil {
		a.state.answered(a.lease, res.Err == nil && len(res.Unknown)+len(a.unknown) == 0)
	}
}

// triesFirst reports whether to try once before queueing: if acquiring changes nothing,
// if the lock is shared and nobody waits here, or if the owner may hold the other side.
func (a *acquisition) triesFirst(owner string) bool {
	k := a.kind
	if k.otherSide != "" {
		if _, brought := ownerIn(a.caller, k); brought { // a hold that is lost has been refused before
			return true
		}
	}
	if a.shares() {
		return false // one asks, and lets the others in
	}
	return k.readOnly || k.shared && !a.client.queues.HasWaiters(k.queueFor(owner))
}

// wantsToken reports whether a fencing token is to be taken: one for each run of
// holds, or the inner one of two would make the outer one's too old.
func (a *acquisition) wantsToken() bool {
	return a.kind.config.fenced && !a.state.hasToken()
}
