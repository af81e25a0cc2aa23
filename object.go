package holdfast

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// object is what can be done with a semaphore or a latch as with any object. Its
// keys are those that it is made of; what helps its calls beside them expires by
// itself.
type object struct {
	client  *Client
	kind    *kind
	keys    []string
	permits int         // to set if nobody has; 0: none
	set     atomic.Bool // they have been
}

// Name returns the name.
func (o *object) Name() string { return o.kind.name }

// Expire lets it be deleted d from now, whatever its permits or its count are
// then, and reports whether it is there. With [NoExpiry] it lives until it is deleted.
// Otherwise d is bounded as a [FixedLease] is; anything else is [ErrInvalid]. Redisson:
// RExpirable.expire, clearExpire.
func (o *object) Expire(ctx context.Context, d time.Duration) (bool, error) {
	if d == NoExpiry {
		d = 0
	} else if _, err := checkLease(d); err != nil {
		return false, err
	}
	n, err := o.number(ctx, "expire", protocol.Expire(o.keys, d))
	return n > 0, err
}

// Delete deletes it, and reports whether it was there. Permits that are held are
// lost. Redisson: RObject.delete.
func (o *object) Delete(ctx context.Context) (bool, error) {
	had, err := o.client.remove(ctx, o.kind, o.keys)
	o.client.pokeHolders(o.kind)
	return had, err
}

// number asks for what is answered by a number.
func (o *object) number(ctx context.Context, op string, ask script.Request) (int64, error) {
	answered, err := o.client.ask(ctx, o.kind, op, ask)
	if err != nil {
		return 0, err
	}
	n, err := answered.Reply.Int(0)
	if err != nil {
		return 0, &BackendError{Op: op, Name: o.kind.name, MayHaveRun: true, Err: err}
	}
	return n, nil
}

// configure applies the options of a semaphore.
func (o *object) configure(options []SemaphoreOption) {
	for _, option := range options {
		err := errNilOption
		if option != nil {
			err = option.applySemaphore(o)
		}
		if err != nil && o.kind.invalid == nil {
			o.kind.invalid = err
		}
	}
}

// furnish sets the permits that [Permits] says, once, and takes the time for that off the
// wait.
func (o *object) furnish(ctx context.Context, config *lockConfig, trySet func(ctx context.Context, n int) (bool, error)) error {
	if o.permits == 0 || o.set.Load() || config.invalid != nil {
		return nil
	}
	began := time.Now()
	if config.wait > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, config.wait, call.ErrNoAnswer)
		defer stop()
	}
	if _, err := trySet(ctx, o.permits); err != nil && !errors.Is(err, ErrUntold) {
		return err
	}
	o.set.Store(true)
	if config.wait > 0 {
		config.wait = max(time.Nanosecond, config.wait-time.Since(began))
	}
	return nil
}

// remove deletes keys, and reports whether any was there.
func (c *Client) remove(ctx context.Context, k *kind, keys []string) (bool, error) {
	o, err := c.ask(ctx, k, "delete", protocol.Delete(keys))
	if err != nil {
		return false, err
	}
	n, err := o.Reply.Int(0)
	if err != nil {
		return false, &BackendError{Op: "delete", Name: k.name, MayHaveRun: true, Err: err}
	}
	// If an attempt was lost, the one that was answered may have found its work done.
	return n > 0 || len(o.Unknown) > 0, nil
}
