package holdfast

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file holds what permits and latches without an owner need to have each
// call's effect exactly once all the same: a call has a random id, and Redis
// keeps the ids of those that have had their effect for a while.

// newID returns 16 random bytes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return string(b[:])
}

// newPermitID returns 16 bytes for a permit: the first of the client's UUID, by which people find out
// whose it is, and random ones.
func (c *Client) newPermitID() string {
	return c.idPrefix + newID()[:16-protocol.PermitPrefix]
}

// once identifies a call with an effect of its own. Redis keeps the id for longer than
// it can take until it is known what came of the call, be it by a waiter that bears an
// outage, and for longer than an attempt of it may arrive late: see servertime.
func once(k *kind) protocol.Once {
	c := k.client
	return protocol.Once{ID: newID(), TTL: (outageTimeouts+2)*c.config.timeout + time.Second + c.calls.Doubt(k.name)}
}

// retryInBackground repeats a call in the background until Redis answers, or may soon
// forget the call's id.
func retryInBackground(k *kind, op string, request script.Request) {
	c := k.client
	c.tasks.Go(func() {
		end := mono.Now().Add(outageTimeouts * c.config.timeout)
		repeat(k, Owner{}, op, end, func(call.Result) script.Request { return request })
	})
}

// runDetached sends a call that must take effect even if its caller gives up: here
// until ctx ends or the client's timeout has run out, and after that in the background.
func runDetached(ctx context.Context, k *kind, op string, request script.Request) (call.Result, error) {
	if k.invalid != nil {
		return call.Result{}, k.invalid
	}
	c := k.client
	if !c.tasks.Begin() {
		return call.Result{}, problem(k.name, "", ErrClosed)
	}
	defer c.tasks.End()
	res := c.calls.Do(ctx, request)
	if res.Err == nil {
		return res, notAnnounced(k.name, request, res)
	}
	if c.life.Err() != nil {
		return res, problem(k.name, "", ErrClosed)
	}
	goesOn := len(res.Unknown) > 0 || res.WorthRepeating() || ctx.Err() != nil
	if goesOn {
		retryInBackground(k, op, request)
	}
	if ctx.Err() != nil {
		return res, gaveUp(ctx, k.name)
	}
	return res, &BackendError{Op: op, Name: k.name, MayHaveRun: goesOn, Err: explained(res.Why())}
}

// undo takes back, in the background, what a call that failed has taken, or may
// have.
func undo(a *acquisition, taken bool) {
	if len(a.unknown) > 0 || taken {
		if release := a.kind.requests.Release("", 1, 0); !release.IsZero() {
			retryInBackground(a.kind, "release", release)
			return
		}
	}
	if leave := a.kind.requests.Leave(""); a.mayBeRegistered() && !leave.IsZero() {
		retryInBackground(a.kind, "leave", leave)
	}
}

// await asks, as a Lock does, until the answer is yes: for what has no owner and
// leaves no hold. If it gives up, what it may have taken is given back.
func await(ctx context.Context, k *kind, config lockConfig) error {
	how := course{started: time.Now()}
	if err := doAwait(ctx, k, config, &how); err != nil {
		tellRefused(ctx, k, config.hooks, how, err)
		return err
	}
	told := false
	defer func() {
		if told {
			return
		}
		// A hook has panicked: nobody knows that it was let in.
		if release := k.requests.Release("", 1, 0); !release.IsZero() {
			_, _ = runDetached(k.client.life, k, "release", release)
		}
	}()
	tellResult(ctx, onPass, k, config.hooks, how, nil)
	told = true
	return nil
}

// doAwait is await without what the hooks are told of its end. It notes how the acquire went.
func doAwait(ctx context.Context, k *kind, config lockConfig, how *course) error {
	c := k.client
	a := &acquisition{kind: k, client: c, caller: ctx, config: config, op: k.op(), started: time.Now(), shutdown: c.draining}
	if err := a.check(); err != nil {
		return err
	}
	if err := c.begin(ctx, a.op, k.name); err != nil {
		return err
	}
	defer a.leave()
	if c.draining.Err() != nil {
		return problem(k.name, "", ErrClosed)
	}
	returned := false
	defer func() {
		if !returned { // OnWait has panicked
			undo(a, false)
		}
	}()
	res := a.tryOrQueue(protocol.Acquire{Waiting: !a.config.oneTry})
	returned, how.hadToWait = true, a.toldWaiting
	done := res.Has(script.Done)
	unsafe := done && !k.readOnly && res.Acknowledged < c.config.replicas
	if done && !unsafe {
		return nil
	}
	undo(a, unsafe)
	switch {
	case unsafe:
		return c.notReplicated(k.name, res)
	case res.Err != nil:
		return a.failure(res)
	default:
		return a.refusal(res)
	}
}
