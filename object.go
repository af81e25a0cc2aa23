package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// What Redisson lets one do with any object, as far as it makes sense for a lock.

// MemoryUsage returns how many bytes the lock takes in Redis, with all its keys,
// as MEMORY USAGE counts them; 0 if there are none. Redisson:
// RObject.sizeInMemory.
func (l *lock) MemoryUsage(ctx context.Context) (int64, error) {
	return l.kind.client.size(ctx, l.kind, l.kind.lock.Size())
}

// Delete takes the lock from whoever holds it, as [Mutex.ForceUnlock] does, and
// drops what else it has in Redis: those who stand in the line of a fair lock
// stand there anew, and a writer for whom readers make way is forgotten until it
// asks again. The key of the fencing tokens stays, for tokens must not begin
// anew. It reports whether there was anything. Redisson: RObject.delete, which
// does not tell all waiters.
func (l *lock) Delete(ctx context.Context) (bool, error) {
	c, k := l.kind.client, l.kind
	ctx, stop := c.withinTimeout(ctx)
	defer stop()
	var had bool
	if keys := k.lock.AuxKeys(); len(keys) > 0 {
		var err error
		if had, err = c.remove(ctx, k, keys); err != nil {
			return false, err
		}
	}
	forced, err := l.ForceUnlock(ctx)
	return had || forced, err
}

// object is what can be done with a semaphore or a latch as with any object. Its
// keys are those that it is made of; what helps its calls beside them expires by
// itself.
type object struct {
	client *Client
	kind   *kind
	keys   []string
	size   script.Request
}

// Name returns the name.
func (o *object) Name() string { return o.kind.name }

// TTL returns how long it lives: 0 if it is not there, -1 if it does not expire,
// which is usual. Redisson: RExpirable.remainTimeToLive.
func (o *object) TTL(ctx context.Context) (time.Duration, error) {
	ms, err := o.number(ctx, "ttl", protocol.TTL(o.keys[0]))
	if err != nil || ms == -2 {
		return 0, err
	}
	return max(-1, time.Duration(ms)*time.Millisecond), nil
}

// Expire lets it be deleted d from now, whatever its permits or its count are
// then, and reports whether it is there. d is bounded as a [Lease] is; anything
// else is [ErrInvalidLease]. Redisson: RExpirable.expire.
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

// MemoryUsage returns how many bytes it takes in Redis, with all its keys, as
// MEMORY USAGE counts them; 0 if there are none. Redisson: RObject.sizeInMemory.
func (o *object) MemoryUsage(ctx context.Context) (int64, error) {
	return o.client.size(ctx, o.kind, o.size)
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

// size asks how many bytes a kind takes.
func (c *Client) size(ctx context.Context, k *kind, ask script.Request) (int64, error) {
	o, err := c.ask(ctx, k, "size", ask)
	if err != nil {
		return 0, err
	}
	bytes, err := o.Reply.Int(0)
	if err != nil {
		return 0, &BackendError{Op: "size", Name: k.name, Err: err}
	}
	return bytes, nil
}
