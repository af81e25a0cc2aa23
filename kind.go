package holdfast

import (
	"cmp"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// kind is one lock of a kind: its name, how Redis is asked for it, and the traits of the
// kind.
type kind struct {
	*traits

	client *Client
	name   string
	// requests builds the requests to acquire it and to release it.
	requests protocol.Waitable
}

// newKind returns a kind with what all have in common.
func newKind(c *Client, name string, t *traits, requests protocol.Waitable) kind {
	k := kind{traits: t, client: c, name: name, requests: requests}
	if err := protocol.CheckName(name); err != nil {
		k.refuse(fmt.Errorf("holdfast: %w name: %.80q: %w", ErrInvalid, name, err))
	}
	return k
}

// lock builds the other requests of a lock, too; it is nil if the kind has no holds.
func (k *kind) lock() protocol.Lock {
	l, _ := k.requests.(protocol.Lock)
	return l
}

// refuse has every call return an error.
func (k *kind) refuse(err error) {
	own := *k.traits
	own.invalid = err
	k.traits = &own
}

// lockID is what a client knows a lock by. The two sides of a read-write lock have one,
// since its writer may read.
type lockID struct{ name, class string }

func (k *kind) id() lockID { return lockID{k.name, min(k.class, cmp.Or(k.otherSide, k.class))} }

// sameLock reports whether two kinds are one lock, or its two sides.
func (k *kind) sameLock(other *kind) bool { return k.client == other.client && k.id() == other.id() }

// queueFor is which queue of this process an owner waits in, and what the queue listens
// to.
func (k *kind) queueFor(owner string) waitqueue.Key {
	return waitqueue.Key{Kind: cmp.Or(k.queue, k.class), Name: k.name, Channel: k.requests.Channel(owner)}
}

// op is what a [BackendError] calls an acquire of it.
func (k *kind) op() string {
	if k.readOnly {
		return "await"
	}
	return opAcquire
}

// canHold refuses what only locks can do that one owner holds.
func (k *kind) canHold(config lockConfig) error {
	if config.retained() == 0 {
		return nil
	}
	if l := k.lock(); l == nil || l.Retain("", 0, "", 0).IsZero() {
		return fmt.Errorf("holdfast: %w option: MinHold of %q, which several may hold at once", ErrInvalid, k.name)
	}
	return nil
}
