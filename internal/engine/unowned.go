package engine

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file has the calls that leave no hold: those without an owner, single ones, and those that are repeated in the background.

// Pass asks, as an acquire does, until the answer is yes. If it gives up, what it may have taken is given back.
func (l *Lock) Pass(ctx context.Context, args Args) (Report, error) {
	e := l.Engine
	op := OpAcquire
	if l.ReadOnly {
		op = "await"
	}
	a := newBlockingCall(ctx, l, op, args)
	a.stopping = e.Draining
	if err := e.begin(ctx, a.op, l.Name); err != nil {
		return Report{}, err
	}
	defer e.Tasks.End()
	defer a.unbound()
	if e.Draining.Err() != nil {
		return Report{}, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	returned := false
	defer func() {
		if !returned { // the WaitObserver has panicked
			a.undo(false)
		}
	}()
	res := a.ask(protocol.Acquire{Waiting: !args.OneTry})
	returned = true
	return Report{HadToWait: a.hadToWait}, a.passed(res)
}

// passed is what comes of the last answer.
func (a *blockingCall) passed(res call.Result) error {
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
func (a *blockingCall) undo(taken bool) {
	if release := a.lock.Requests.Release("", 1, 0); (len(a.unknown) > 0 || taken) && !release.IsZero() {
		a.lock.retryInBackground("release", release)
		return
	}
	if leave := a.lock.Requests.Leave(""); a.leaveDue && !leave.IsZero() {
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
	res := e.Calls.Do(ctx, request, nil)
	if res.Err == nil {
		return res, notAnnounced(l.Name, request, res)
	}
	if e.Life.Err() != nil {
		return res, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	goesOn := len(res.Unknown) > 0 || res.WorthRepeating() || ctx.Err() != nil
	if goesOn {
		l.retryInBackground(op, request)
	}
	if ctx.Err() != nil {
		return res, l.contextError(ctx, op, goesOn, &res)
	}
	return res, e.Errors.Backend(op, l.Name, goesOn, res.Why())
}

// Invoke sends one request for a user. If the context ends a request that Redis could still have answered in time, the error is
// the context's alone, although the request may take effect.
func (l *Lock) Invoke(ctx context.Context, op string, request script.Request) (call.Result, error) {
	e := l.Engine
	if err := e.begin(ctx, op, l.Name); err != nil {
		return call.Result{}, err
	}
	defer e.Tasks.End()
	open, stop := e.UntilClosing(ctx)
	defer stop()
	res := e.Calls.Do(open, request, nil)
	switch {
	case res.Err == nil:
		return res, notAnnounced(l.Name, request, res)
	case EndedByCaller(ctx):
		return res, l.contextError(ctx, op, len(res.Unknown) > 0, &res)
	case e.Closing.Err() != nil:
		return res, lockerr.Problem(l.Name, "", lockerr.Closed)
	default:
		return res, e.Errors.Backend(op, l.Name, len(res.Unknown) > 0, ForUser(res.Why()))
	}
}

// contextError returns the error of a request that the caller's context has ended.
func (l *Lock) contextError(ctx context.Context, op string, mayHaveRun bool, res *call.Result) error {
	e := l.Engine
	var known error
	if why := e.noReply(ctx, res, true); why != nil {
		known = e.Errors.Backend(op, l.Name, mayHaveRun, ForUser(why))
	}
	return e.Errors.WithReason(ContextError(ctx, l.Name), known)
}

// repeat sends what next returns until Redis answers, end has passed, or there is nothing more to send; next is told what
// became of the last one. What goes wrong is told to Config.Failed. The attempts are those that were not answered.
func (l *Lock) repeat(owner, op string, end mono.Time, next func(last call.Result) script.Request) (res call.Result, unknown []*call.Attempt) {
	e := l.Engine
	for request := next(res); !request.IsZero(); request = next(res) {
		res = e.Calls.Do(e.Life, request, nil)
		unknown = append(unknown, res.Unknown...)
		if err := notAnnounced(l.Name, request, res); err != nil {
			e.Failed(l, owner, err)
		}
		if res.Err == nil {
			break
		}
		// While the client closes, what Redis refuses is not tried again if it ends with its lease. Nothing ends what has no owner.
		over := mono.Now() > end || owner != "" && e.Closing.Err() != nil && call.Code(res.Why()) != ""
		if over || !res.WorthRepeating() {
			e.Failed(l, owner, e.Errors.Backend(op, l.Name, len(res.Unknown) > 0, ForUser(res.Why())))
			break
		}
	}
	return res, unknown
}

// notAnnounced tells a user about a call that has had its effect, of which Redis told nobody. It is nil if Redis did.
func notAnnounced(name string, request script.Request, res call.Result) error {
	why := res.Reply.Untold()
	if !res.Has(script.Done) || why == "" {
		return nil
	}
	return lockerr.Problem(name, fmt.Sprintf("let the Redis user publish on %q (docs/acl.md): %s", request.Channel, why), lockerr.Untold)
}
