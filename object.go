package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// object is what can be done with a semaphore or a latch as with any object. Its
// keys are those that it is made of; what helps its calls beside them expires by
// itself.
type object struct {
	client *Client
	kind   *kind
	keys   []string
}

// Name returns the name.
func (o *object) Name() string { return o.kind.name }

// Expire lets it be deleted d from now, whatever its permits or its count are
// then, and reports whether it is there. d is bounded as a [FixedLease] is; anything
// else is [ErrInvalid]. Redisson: RExpirable.expire.
func (o *object) Expire(ctx context.Context, d time.Duration) (bool, error) {
	d, err := checkLease(d)
	if err != nil {
		return false, err
	}
	return o.expire(ctx, d)
}

// ClearExpire removes the time to live: it lives until it is deleted. It reports
// whether it is there. Redisson:
// RExpirable.clearExpire.
func (o *object) ClearExpire(ctx context.Context) (bool, error) { return o.expire(ctx, 0) }

func (o *object) expire(ctx context.Context, d time.Duration) (bool, error) {
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
