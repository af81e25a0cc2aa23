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
	tries       int  // how often it has started over
	tied        bool // the last attempt ended at a part that is tied
}

// newCompositeAcquire checks what can be checked before anything is sent.
func newCompositeAcquire(ctx context.Context, name, kind string, kinds []*kind, config lockConfig) (*compositeAcquire, error) {
	g := &compositeAcquire{name: name, kind: kind, caller: ctx, config: config, started: time.Now()}
	if config.invalid != nil {
		return nil, config.invalid
	}
	for _, k := range kinds {
		if k.invalid != nil {
			return nil, k.invalid
		}
		if _, err := k.client.complete(config); err != nil {
			return nil, err
		}
		if err := k.canHold(config); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, gaveUp(ctx, name)
	}
	return g, g.own(kinds)
}

// own decides who owns each part: the owner that the caller's context has for it,
// or a new one, one for all parts of a client.
func (g *compositeAcquire) own(kinds []*kind) error {
	fresh := map[*Client]Owner{}
	for _, k := range kinds {
		owner, ok := fresh[k.client]
		if _, has, _ := k.ownerIn(g.caller); has || !ok {
			var err error
			if owner, err = k.ownerFor(g.caller); err != nil {
				return err
			}
			if !has {
				fresh[k.client] = owner
			}
		}
		g.owners = append(g.owners, ownerOf{k, owner})
	}
	return nil
}

// owners are those of each part.
type owners []ownerOf

type ownerOf struct {
	kind  *kind
	owner Owner
}

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

// heldIn returns a context that says who holds each part, while h lasts.
func (all owners) heldIn(ctx context.Context, h *Hold) context.Context {
	for _, part := range all {
		ctx = part.kind.heldIn(ctx, part.owner, h) //nolint:fatcontext // one layer a part
	}
	return ctx
}

// bound returns the context that ends when the call has to.
func (g *compositeAcquire) bound() (context.Context, context.CancelFunc) {
	if g.config.wait > 0 {
		return context.WithDeadlineCause(g.caller, g.started.Add(g.config.wait), errWaitOver)
	}
	return context.WithCancel(g.caller)
}

// tryPart are the options to acquire a part with, without waiting.
func (g *compositeAcquire) tryPart() []TryOption {
	config := g.config
	return []TryOption{tryOption(func(c *lockConfig) error {
		c.lease, c.fixed, c.keep, c.atLeast = config.lease, config.fixed, config.keep, max(config.minHold, config.atLeast)
		return nil
	})}
}

// waitPart are the options to wait for a part with.
func (g *compositeAcquire) waitPart() (options []LockOption) {
	for _, option := range g.tryPart() {
		options = append(options, option)
	}
	if g.config.hooks.want(onWait) {
		options = append(options, WithHooks(Hooks{OnWait: func(_ context.Context, e Event) { g.tellWaiting(e.Ahead) }}))
	}
	if g.config.wait > 0 {
		left := time.Until(g.started.Add(g.config.wait))
		options = append(options, Wait(max(left, time.Millisecond))) // 0 would be one try
	}
	return options
}

// tellWaiting tells the hooks of the call, once, that it has to wait for a part.
func (g *compositeAcquire) tellWaiting(ahead int) {
	if !g.toldWaiting {
		g.toldWaiting = true
		g.config.hooks.tell(g.caller, onWait, Event{Name: g.name, Kind: g.kind, Ahead: ahead})
	}
}

// startOver are the pauses between two attempts of one call: two that are in
// each other's way do not stay in step.
var startOver = backoff{10 * time.Millisecond, 250 * time.Millisecond}

// until attempts until it succeeds, is not worth starting over, or bound ends.
func (g *compositeAcquire) until(bound context.Context, attempt func() (h *Hold, again bool, err error)) (*Hold, error) {
	for {
		h, again, err := attempt()
		if err == nil {
			return h, nil
		}
		if again {
			g.tellWaiting(0)
			call.Sleep(bound, startOver.pause(g.tries))
			g.tries++
		}
		switch {
		case g.caller.Err() != nil:
			err = gaveUp(g.caller, g.name)
		case again && bound.Err() == nil:
			continue
		}
		g.config.hooks.tell(g.caller, onRefuse, Event{Name: g.name, Kind: g.kind, Waited: time.Since(g.started), Err: err})
		return nil, err
	}
}

// inTime makes of an error that comes of the end of the wait what it is.
func (g *compositeAcquire) inTime(bound context.Context, op string, err error) error {
	if err == nil || g.caller.Err() != nil || bound.Err() == nil || !errors.Is(err, errWaitOver) {
		return err
	}
	return &BackendError{Op: op, Name: g.name, MayHaveRun: true, Err: call.ErrNoAnswer}
}
