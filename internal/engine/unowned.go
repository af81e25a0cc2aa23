package engine

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file has the calls that leave no hold: of what has no owner, and single ones.

// Pass asks, as an acquire does, until the answer is yes. If it gives up, what it may have taken is given back.
func (l *Lock) Pass(ctx context.Context, args Args) (Report, error) {
	e := l.Engine
	a := &asker{lock: l, engine: e, args: args, op: l.op(), started: time.Now(), caller: ctx, stopping: e.draining}
	if err := e.Begin(ctx, a.op, l.Name); err != nil {
		return Report{}, err
	}
	defer e.Tasks.End()
	defer a.unbound()
	if e.draining.Err() != nil {
		return Report{}, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	returned := false
	defer func() {
		if !returned { // OnWait has panicked
			a.queued.waiter.Leave()
			a.undo(false)
		}
	}()
	res := a.ask(protocol.Acquire{Waiting: !args.OneTry})
	returned = true
	return Report{HadToWait: a.hadToWait}, a.passed(res)
}

// passed is what comes of the last answer.
func (a *asker) passed(res call.Result) error {
	done := res.Has(script.Done)
	unsafe := done && !a.lock.ReadOnly && res.Acknowledged < a.engine.Replicas
	if done && !unsafe {
		return nil
	}
	a.undo(unsafe)
	switch {
	case unsafe:
		return a.engine.notReplicated(a.lock.Name, res)
	case res.Err != nil:
		return a.failure(res)
	default:
		return a.refusal(res)
	}
}

// undo takes back, in the background, what a call that failed has taken, or may have.
func (a *asker) undo(taken bool) {
	if release := a.lock.Requests.Release("", 1, 0); (len(a.unknown) > 0 || taken) && !release.IsZero() {
		a.lock.retryInBackground("release", release)
		return
	}
	if leave := a.lock.Requests.Leave(""); a.mayBeRegistered() && !leave.IsZero() {
		a.lock.retryInBackground("leave", leave)
	}
}

// retryInBackground repeats a call in the background until Redis answers, or may soon forget the call's id.
func (l *Lock) retryInBackground(op string, request script.Request) {
	l.Engine.Tasks.Go(func() {
		end := mono.Now().Add(Outage * l.Engine.Timeout)
		l.repeat("", op, end, func(call.Result) script.Request { return request })
	})
}

// Detached sends a call that must take effect even if its caller gives up: here until ctx ends or the timeout has run out, and
// after that in the background.
func (l *Lock) Detached(ctx context.Context, op string, request script.Request) (call.Result, error) {
	e := l.Engine
	if !e.Tasks.Begin() {
		return call.Result{}, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	defer e.Tasks.End()
	res := e.Calls.Do(ctx, request)
	if res.Err == nil {
		return res, notAnnounced(l.Name, request, res)
	}
	if e.life.Err() != nil {
		return res, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	goesOn := len(res.Unknown) > 0 || res.WorthRepeating() || ctx.Err() != nil
	if goesOn {
		l.retryInBackground(op, request)
	}
	if ctx.Err() != nil {
		return res, GaveUp(ctx, l.Name)
	}
	return res, e.Errors.Backend(op, l.Name, goesOn, res.Why())
}

// Invoke is one call of a user's. Of one that its caller gave up while it was under way nobody knows whether it has its effect;
// the error is that of the context all the same, as Redis has not failed.
func (l *Lock) Invoke(ctx context.Context, op string, request script.Request) (call.Result, error) {
	e := l.Engine
	if err := e.Begin(ctx, op, l.Name); err != nil {
		return call.Result{}, err
	}
	defer e.Tasks.End()
	open, stop := e.UntilClosing(ctx)
	defer stop()
	res := e.Calls.Do(open, request)
	switch {
	case res.Err == nil:
		return res, notAnnounced(l.Name, request, res)
	case EndedByCaller(ctx):
		return res, GaveUp(ctx, l.Name)
	case e.closing.Err() != nil:
		return res, lockerr.Problem(l.Name, "", lockerr.Closed)
	default:
		return res, e.Errors.Backend(op, l.Name, len(res.Unknown) > 0, ForUser(res.Why()))
	}
}
