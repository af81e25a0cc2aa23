package holdfast

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
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

// memory is for how long Redis keeps a call's id: longer than it can take until
// it is known what came of the call, be it by a waiter that bears an outage.
func (c *Client) memory() time.Duration { return (outageTimeouts + 2) * c.config.timeout }

// once identifies a call with an effect of its own.
func (c *Client) once() protocol.Once { return protocol.Once{ID: newID(), Keep: c.memory()} }

// retryInBackground repeats a call in the background until Redis answers, or may soon
// forget the call's id.
func (c *Client) retryInBackground(k *kind, op string, ask script.Request) {
	c.tasks.Go(func() {
		end := time.Now().Add(outageTimeouts * c.config.timeout)
		for {
			o := c.calls.Do(c.life, ask)
			if o.Err == nil {
				if untold := untold(k.name, ask, o); untold != nil {
					c.failed(k, Owner{}, untold)
				}
				return
			}
			if !o.WorthRepeating() || c.closing.Err() != nil || time.Now().After(end) {
				c.failed(k, Owner{}, backendError(op, k.name, o))
				return
			}
		}
	})
}

// runDetached sends a call that must take effect even if its caller gives up: here
// until ctx ends or the client's timeout has run out, and after that in the background.
func (c *Client) runDetached(ctx context.Context, k *kind, op string, ask script.Request) (call.Result, error) {
	if k.invalid != nil {
		return call.Result{}, k.invalid
	}
	if !c.tasks.Begin() {
		return call.Result{}, problem(k.name, "", ErrClosed)
	}
	defer c.tasks.End()
	o := c.calls.Do(ctx, ask)
	if o.Err == nil {
		return o, untold(k.name, ask, o)
	}
	if c.life.Err() != nil {
		return o, problem(k.name, "", ErrClosed)
	}
	goesOn := len(o.Unknown) > 0 || o.WorthRepeating() || ctx.Err() != nil
	if goesOn {
		c.retryInBackground(k, op, ask)
	}
	if ctx.Err() != nil {
		return o, gaveUp(ctx, k.name)
	}
	return o, &BackendError{Op: op, Name: k.name, MayHaveRun: goesOn, Err: explained(o.Err)}
}

// undo takes back, in the background, what a call that failed has taken, or may
// have.
func (a *acquisition) undo(taken bool) {
	if undo := a.kind.waits.Release("", 1, 0); (len(a.unknown) > 0 || taken) && !undo.IsZero() {
		a.client.retryInBackground(a.kind, "release", undo)
	} else if leave := a.kind.waits.Leave(""); a.known() && !leave.IsZero() {
		a.client.retryInBackground(a.kind, "leave", leave)
	}
}

// op is what a [BackendError] calls waiting for what has no owner.
func (k *kind) op() string {
	if k.readOnly {
		return "await"
	}
	return opAcquire
}

// await asks, as a Lock does, until the answer is yes: for what has no owner and
// leaves no hold. If it gives up, what it may have taken is given back.
func (c *Client) await(ctx context.Context, k *kind, config lockConfig) error {
	started := time.Now()
	err := c.awaitWithoutHooks(ctx, k, config)
	if err != nil {
		c.tellRefused(ctx, k, config.hooks, started, err)
	}
	return err
}

// awaitWithoutHooks is await up to the hooks; see [Client.acquireWithoutHooks].
func (c *Client) awaitWithoutHooks(ctx context.Context, k *kind, config lockConfig) error {
	a := &acquisition{kind: k, client: c, caller: ctx, config: config, op: k.op(), started: time.Now()}
	if _, err := a.check(); err != nil {
		return err
	}
	if err := c.begin(ctx, k.name); err != nil {
		return err
	}
	defer c.tasks.End()
	if c.draining.Err() != nil {
		return problem(k.name, "", ErrClosed)
	}
	waiting, stop := a.waiting(c.draining)
	defer stop()
	o := a.tryOrQueue(waiting, protocol.Acquire{Waiting: !a.config.oneTry})
	done := o.Has(script.Done)
	unsafe := done && !k.readOnly && o.Acknowledged < c.config.replicas
	if done && !unsafe {
		return nil
	}
	a.undo(unsafe)
	switch {
	case unsafe:
		return c.notReplicated(k.name, o)
	case o.Err != nil:
		return a.failure(waiting, o)
	default:
		return a.refusal(o)
	}
}
