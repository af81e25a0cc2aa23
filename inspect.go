package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// Inspection is how a lock stands in Redis.
type Inspection struct {
	// Name is the lock's name.
	Name string
	// Mode is "read" or "write" for a held read-write lock, and empty otherwise.
	Mode string
	// Holders are who holds it; none if it is free.
	Holders []Holder
	// TTL is how long it lives unless renewed: 0 if it is free, -1 if it does
	// not expire, which neither holdfast nor Redisson would leave behind.
	TTL time.Duration
	// Waiters are who stands in line, in order, where that is known in Redis: for
	// fair locks.
	Waiters []string
	// Token is the last fencing token, of a lock that is [Fenced]; else 0.
	Token int64
}

// Holder is one owner that holds a lock.
type Holder struct {
	// Owner is the holder as it stands in Redis, here or in any other client.
	Owner string
	// Count is how often it holds the lock.
	Count int
}

// fetchState reads the state of a lock from Redis.
func (c *Client) fetchState(ctx context.Context, k *kind, ask script.Request) (Inspection, error) {
	o, err := c.ask(ctx, k, "inspect", ask)
	if err != nil {
		return Inspection{}, err
	}
	found, err := protocol.ReadState(o.Reply)
	if err != nil {
		return Inspection{}, misread(k.name, err)
	}
	state := Inspection{Name: k.name, Mode: found.Mode, TTL: found.TTL, Waiters: found.Waiters, Token: found.Token}
	for _, h := range found.Holders {
		state.Holders = append(state.Holders, Holder(h))
	}
	return state, nil
}

// misread is the error for a reply that is not one of our scripts'.
func misread(name string, err error) error { return &BackendError{Op: "inspect", Name: name, Err: err} }

// takeable is what can be asked for who holds it, and taken from them.
type takeable interface {
	Inspect() script.Request
	Force(holders []string) script.Request
}

// force takes a lock from whoever holds it, and reports whether anybody did. It
// asks who that is first, so that an attempt that comes late does not hit the next.
func (c *Client) force(ctx context.Context, k *kind, l takeable) (bool, error) {
	ctx, stop := c.withinTimeout(ctx)
	defer stop()
	for range 20 {
		found, err := c.fetchState(ctx, k, l.Inspect())
		if err != nil || len(found.Holders) == 0 {
			return false, err
		}
		holders := make([]string, len(found.Holders))
		for i, h := range found.Holders {
			holders[i] = h.Owner
		}
		o, err := c.ask(ctx, k, "force", l.Force(holders))
		if err != nil && !errors.Is(err, ErrUntold) {
			return false, err
		}
		c.pokeHolders(k)
		// One that is still on its way could hit the same owner's next hold.
		c.calls.Outlast(ctx, o.Unknown)
		// If an attempt was lost, the one that was answered may have found its work
		// done. Otherwise the holder has left by itself; another may have come.
		if o.Reply.Code == script.Done || len(o.Unknown) > 0 {
			return true, err
		}
	}
	return false, problem(k.name, "it changes hands faster than it can be taken away", ErrLocked)
}

// pokeHolders makes this client's own holders of a lock look whether they still
// hold it.
func (c *Client) pokeHolders(k *kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.states {
		if key.name != k.name {
			continue
		}
		t.mu.Lock()
		if t.entry != nil {
			c.watchdog.Check(t.entry)
		}
		t.mu.Unlock()
	}
}

// withinTimeout bounds a call that is several calls by the client's timeout.
func (c *Client) withinTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.config.timeout, call.ErrNoAnswer)
}

// timeIsUp reports whether it was withinTimeout that has ended ctx.
func timeIsUp(ctx context.Context) bool { return errors.Is(context.Cause(ctx), call.ErrNoAnswer) }

// ask is one call of a user's, from the checks to the errors.
func (c *Client) ask(ctx context.Context, k *kind, op string, ask script.Request) (call.Result, error) {
	if k.invalid != nil {
		return call.Result{}, k.invalid
	}
	if timeIsUp(ctx) {
		return call.Result{}, &BackendError{Op: op, Name: k.name, Err: call.ErrNoAnswer}
	}
	if err := c.begin(ctx, k.name); err != nil {
		return call.Result{}, err
	}
	defer c.tasks.End()
	open, stop := c.untilClosing(ctx)
	defer stop()
	o := c.calls.Do(open, ask)
	switch {
	case o.Err == nil:
		return o, untold(k.name, ask, o)
	case ctx.Err() != nil && !timeIsUp(ctx):
		return o, gaveUp(ctx, k.name)
	case c.closing.Err() != nil:
		return o, problem(k.name, "", ErrClosed)
	default:
		return o, backendError(op, k.name, o)
	}
}
