package engine

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// pass is a blocking call that leaves no hold, and has no owner: of a semaphore, or a latch.
type pass struct{ blockingCall }

// Pass asks, as an acquire does, until the answer is yes. If it gives up, what it may have taken is given back.
func Pass(ctx context.Context, l *Lock, args *Args) (Report, error) {
	e := l.Engine
	op := OpAcquire
	if l.ReadOnly {
		op = "await"
	}
	p := pass{newBlockingCall(ctx, l, op, args)}
	p.stopping = e.Draining
	if err := e.begin(ctx, p.op, l.Name); err != nil {
		return Report{}, err
	}
	defer e.Tasks.End()
	defer p.unbound()
	if e.Draining.Err() != nil {
		return Report{}, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	returned := false
	defer func() {
		if !returned { // the WaitObserver has panicked
			p.undo(false)
		}
	}()
	res := p.askAndWait(&protocol.Acquire{Waiting: !args.OneTry})
	returned = true
	return Report{HadToWait: p.hadToWait}, p.concluded(&res)
}

// concluded is what comes of the last answer.
func (p *pass) concluded(res *call.Result) error {
	done := res.Has(script.Done)
	unsafe := done && !p.lock.ReadOnly && res.Acknowledged < p.engine.Replicas
	if done && !unsafe {
		return nil
	}
	p.undo(unsafe)
	switch {
	case unsafe:
		return p.engine.notReplicated(p.lock.Name, res.Acknowledged)
	case res.Err != nil:
		return p.failure(res)
	default:
		return p.refusal(res)
	}
}

// undo takes back, in the background, what a call that failed has taken, or may have.
func (p *pass) undo(taken bool) {
	if release := p.lock.Requests.Release("", 1, 0); (len(p.unknown) > 0 || taken) && !release.IsZero() {
		p.lock.retryInBackground("release", release)
		return
	}
	if leave := p.lock.Requests.Leave(""); p.leaveDue && !leave.IsZero() {
		p.lock.retryInBackground("leave", leave)
	}
}
