package holdfast

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/script"
)

// What Redisson lets one do with any object, as far as it makes sense for a lock.

// MemoryUsage returns how many bytes the lock takes in Redis, with all its keys,
// as MEMORY USAGE counts them; 0 if there are none. Redisson:
// RObject.sizeInMemory.
func (l *lock) MemoryUsage(ctx context.Context) (int64, error) {
	return l.kind.client.size(ctx, l.kind)
}

// Delete takes the lock from whoever holds it, as [Mutex.ForceUnlock] does, and
// drops what else it has in Redis: those who stand in the line of a fair lock
// stand there anew, and a writer for whom readers make way is forgotten until it
// asks again. The key of the fencing tokens stays, for tokens must not begin
// anew. It reports whether there was anything. Redisson: RObject.delete, which
// does not tell all waiters.
func (l *lock) Delete(ctx context.Context) (bool, error) {
	c, k := l.kind.client, l.kind
	var had bool
	if keys := k.aside(); len(keys) > 0 {
		o, err := c.ask(ctx, k, "delete", request{script: script.Delete, keys: keys})
		if err != nil {
			return false, err
		}
		n, err := o.answer.Int(0)
		if err != nil {
			return false, &BackendError{Op: "delete", Name: k.name, MayHaveRun: true, Err: err}
		}
		had = n > 0
	}
	forced, err := l.ForceUnlock(ctx)
	return had || forced, err
}

// ClearExpire always returns an error that matches [errors.ErrUnsupported]: a
// lock without expiry would outlive its holder. To let a hold live longer, use
// [Hold.Extend]. Redisson: RExpirable.clearExpire.
func (l *lock) ClearExpire(context.Context) error {
	return problem(l.kind.name, "without expiry it would outlive its holder; use Hold.Extend", errors.ErrUnsupported)
}

// Rename always returns an error that matches [errors.ErrUnsupported]: whoever
// holds the lock or waits for it knows it by its name, and would go on under the
// old one. Redisson: RObject.rename.
func (l *lock) Rename(_ context.Context, _ string) error {
	return problem(l.kind.name, "holders and waiters know it by its name", errors.ErrUnsupported)
}

// size asks how many bytes a kind takes.
func (c *Client) size(ctx context.Context, k *kind) (int64, error) {
	o, err := c.ask(ctx, k, "size", k.size())
	if err != nil {
		return 0, err
	}
	bytes, err := o.answer.Int(0)
	if err != nil {
		return 0, &BackendError{Op: "size", Name: k.name, Err: err}
	}
	return bytes, nil
}
