package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// kind is one lock of a kind, as the engine has it, and what only users see of it.
type kind struct {
	engine.Lock

	client *Client
	// mode is that of the holders of a read-write lock who hold this side of it; empty: all holders hold it.
	mode    string
	invalid error // why it cannot be used, or nil
}

// newKind returns a kind with what all have in common.
func newKind(c *Client, name string, t *engine.Traits, requests protocol.Waitable) kind {
	k := kind{Lock: engine.Lock{Traits: t, Engine: c.engine, Name: name, Requests: requests}, client: c}
	if err := protocol.CheckName(name); err != nil {
		k.refuse(fmt.Errorf("holdfast: %w name: %.80q: %w", ErrInvalid, name, err))
	}
	return k
}

// refuse has every call return an error; the first one counts.
func (k *kind) refuse(err error) {
	if k.invalid == nil {
		k.invalid = err
	}
}

// invoke is one call of a user's, from the checks to the errors.
func (k *kind) invoke(ctx context.Context, op string, request script.Request) (call.Result, error) {
	if k.invalid != nil {
		return call.Result{}, k.invalid
	}
	return k.Invoke(ctx, op, request)
}

// complete adds the client's part to the options of an acquire, and refuses what cannot work.
func (k *kind) complete(config lockConfig) (lockConfig, error) {
	if k.invalid != nil {
		return config, k.invalid
	}
	config, err := k.client.config.complete(config)
	if err != nil {
		return config, err
	}
	return config, k.canHold(config)
}

// canHold refuses what only locks can do that one owner holds.
func (k *kind) canHold(config lockConfig) error {
	if config.Retained() == 0 {
		return nil
	}
	if l := k.Held(); l == nil || l.Retain("", 0, "", 0).IsZero() {
		return fmt.Errorf("holdfast: %w option: MinHold of %q, which several may hold at once", ErrInvalid, k.Name)
	}
	return nil
}

// args are what the engine is asked for.
func (k *kind) args(ctx context.Context, config *lockConfig) engine.Args {
	args := config.Args
	if hooks := config.hooks; hooks.want(onWait) {
		args.OnWait = func(ahead int) {
			hooks.tell(ctx, onWait, Event{Name: k.Name, Kind: k.Label, Ahead: ahead})
		}
	}
	return args
}

// acquire is Lock and TryLock of every kind.
func (k *kind) acquire(ctx context.Context, config lockConfig) (*Hold, error) {
	return k.obtain(ctx, Owner{}, config)
}

// obtain acquires the lock, or adopts it from another owner if there is one.
func (k *kind) obtain(ctx context.Context, from Owner, config lockConfig) (*Hold, error) {
	started, own := time.Now(), config.hooks
	h := &Hold{kind: k}
	h.core = &h.one
	var went engine.Report
	config, err := k.complete(config)
	if err == nil {
		if h.hooks = config.hooks; len(h.hooks) > 0 {
			h.one.Observe((*observer)(h))
		}
		if args := k.args(ctx, &config); from.IsZero() {
			went, err = k.Acquire(ctx, &h.one, args)
		} else {
			went, err = k.Adopt(ctx, &h.one, from.text, from.shown(), args)
		}
	}
	how := report{started, went}
	if err != nil {
		err = k.client.withHolder(ctx, err)
		tellRefused(ctx, k, own, how, err)
		return nil, err
	}
	h.tellAcquired(how)
	return h, nil
}

// pass asks, as a Lock does, until the answer is yes: for what has no owner and leaves no hold. If it gives up, what it may
// have taken is given back.
func (k *kind) pass(ctx context.Context, config lockConfig) error {
	started, own := time.Now(), config.hooks
	var went engine.Report
	config, err := k.complete(config)
	if err == nil {
		went, err = k.Pass(ctx, k.args(ctx, &config))
	}
	how := report{started, went}
	if err != nil {
		tellRefused(ctx, k, own, how, err)
		return err
	}
	told := false
	defer func() {
		if told {
			return
		}
		// A hook has panicked: nobody knows that it was let in.
		if release := k.Requests.Release("", 1, 0); !release.IsZero() {
			_, _ = k.Detached(k.Engine.Life(), "release", release)
		}
	}()
	tellResult(ctx, onPass, k, own, how, nil)
	told = true
	return nil
}

// once identifies a call with an effect of its own: Redis keeps the ids of those that have had their effect, for longer than it
// can take until it is known what came of the call, be it by a waiter that bears an outage, and for longer than an attempt of
// it may arrive late.
func (k *kind) once() protocol.Once {
	e := k.Engine
	return protocol.Once{ID: newID(), TTL: (engine.Outage+2)*e.Timeout + time.Second + e.Calls.Doubt(k.Name)}
}
