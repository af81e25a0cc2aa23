package holdfast

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Owner is who holds a lock: a client's UUID and a number, in the place where
// Redisson has its client's UUID and the thread's id. It is a value: compare it,
// print it, send it to another process, for Adopt.
//
// One owner is one logical thread of the client that made it. Its calls for one
// lock come one after another, in whichever goroutines.
type Owner struct {
	text string // as it stands in Redis
}

// ParseOwner reads an owner as [Owner.String] writes it. It returns an error
// that matches [ErrInvalid] for anything else.
func ParseOwner(s string) (Owner, error) {
	client, number, ok := strings.Cut(s, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || client == "" || err != nil || strconv.FormatInt(n, 10) != number {
		return Owner{}, fmt.Errorf("holdfast: %w owner: %.100q is not a client id, a colon and a number", ErrInvalid, s)
	}
	return Owner{s}, nil
}

// String returns the owner as it stands in Redis: client UUID, colon, number.
// Of the zero Owner that is empty. A holder that is no client's, as a permit's id, is
// what stands in Redis.
func (o Owner) String() string { return o.text }

// shown is the owner for the text of an error: anybody who may write to Redis can make one up.
func (o Owner) shown() string {
	if o.text == presence.Printable(o.text) {
		return o.text
	}
	return fmt.Sprintf("%.100q", o.text)
}

// IsZero reports whether o is the zero Owner, which holds nothing.
func (o Owner) IsZero() bool { return o == Owner{} }

// MarshalText writes the owner as [Owner.String] does.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.text), nil }

// LogValue returns what [Owner.String] does, for log/slog.
func (o Owner) LogValue() slog.Value { return slog.StringValue(o.text) }

// UnmarshalText reads what MarshalText has written. Unlike [ParseOwner] it takes any text:
// not every holder in Redis is a client's.
func (o *Owner) UnmarshalText(text []byte) error {
	*o = Owner{string(text)}
	return nil
}

// of reports whether the owner is one of a client's.
func (o Owner) of(c *Client) bool {
	client, _, _ := strings.Cut(o.text, ":")
	return client == c.id
}

// ownerKey is where a context has what [WithOwner] says: an *ownerScope.
type ownerKey struct{}

// ownerScope is one use of [WithOwner]. It hides the holds whose contexts lie
// further out.
type ownerScope struct {
	owner Owner
	none  bool // there is no owner at all
}

// heldKey is where a context has who holds a lock, or one of its sides: a *heldContext.
type heldKey struct{ *kind }

// heldContext is a context with who holds one lock. It is inside the context that it was
// made from.
type heldContext struct {
	context.Context

	*ownerOf

	hold *Hold // while it lasts; nil: in any case
}

// ownerOf is who holds a lock, or is to hold it.
type ownerOf struct {
	kind  *kind
	owner Owner
}

// Value returns who holds the lock, or what the context has that it was made from.
func (c *heldContext) Value(key any) any {
	if lock, ok := key.(heldKey); ok && lock.sameLock(c.kind) {
		return c
	}
	return c.Context.Value(key)
}

// WithOwner returns a context whose calls belong to owner, at every lock of the
// client that made it: Lock under it is reentrant with everything that owner
// holds. It is for a logical thread of one's own; without it each hold has an
// owner of its own, and only [Hold.Context] is reentrant, with that hold's lock.
//
// An owner belongs to the client that made it ([Client.NewOwner], [Hold.Owner]).
// With another client's, Lock returns [ErrInvalid]; a hold goes to another
// client by [Hold.Detach] and Adopt.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, &ownerScope{owner: owner})
}

// withoutOwner returns a context under which nothing is held.
func withoutOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, &ownerScope{none: true})
}

// disclose asks for the owner, so that the hold which has it does not pass on any more, and
// reports whether it has done so before.
func (c claim) disclose() bool {
	if c.hold == nil {
		return false
	}
	one, ok := c.hold.held.(*single)
	return ok && one.discloseOwner().IsZero()
}

// OwnerFrom returns the owner that Lock of l under ctx would belong to, and whether
// there is one: that of the hold of l whose context ctx is, or what [WithOwner] set.
// Otherwise Lock makes a new one.
func OwnerFrom(ctx context.Context, l Locker) (Owner, bool) {
	if k := singleKind(l); k != nil {
		found, ok := ownerIn(ctx, k)
		if found.disclose() {
			return OwnerFrom(ctx, l)
		}
		return found.owner, ok
	}
	return scopeIn(ctx).get()
}

// scopeIn returns the use of [WithOwner] that ctx is under, or nil.
func scopeIn(ctx context.Context) *ownerScope {
	scope, _ := ctx.Value(ownerKey{}).(*ownerScope)
	return scope
}

// get returns the owner of the scope, and whether it has one. A nil scope has none.
func (s *ownerScope) get() (Owner, bool) {
	if s == nil || s.none {
		return Owner{}, false
	}
	return s.owner, true
}

// claim is as whom a call is made.
type claim struct {
	owner Owner
	// hold is the one whose context the call is made under: it is to be nested in that. nil:
	// the owner was set by hand, or it is fresh.
	hold  *Hold
	lost  error // why that hold is lost
	fresh bool  // the owner is new: nobody knows it
}

// ownerIn returns the owner that ctx has for the lock, and whether it has one. A hold
// that was given back has none, though its context may live on (as WithoutCancel); one
// that was lost has.
func ownerIn(ctx context.Context, k *kind) (found claim, ok bool) {
	scope := scopeIn(ctx)
	for held := heldIn(ctx, k); held != nil && scopeIn(held.Context) == scope; held = heldIn(held.Context, k) {
		if held.hold == nil {
			return claim{owner: held.owner}, true
		}
		if err := held.hold.alive(); err == nil || errors.Is(err, ErrLost) {
			return claim{owner: held.owner, hold: held.hold, lost: err}, true
		}
	}
	owner, ok := scope.get()
	return claim{owner: owner}, ok
}

// over returns why the hold that a call was to be nested in is no more, or nil.
func (c claim) over() error {
	if c.hold == nil {
		return nil
	}
	return c.hold.alive()
}

// heldIn returns the innermost context around ctx that says who holds the lock, or nil.
func heldIn(ctx context.Context, k *kind) *heldContext {
	held, _ := ctx.Value(heldKey{k}).(*heldContext)
	return held
}

// ownerFor returns the owner of a Lock under ctx: the one that ctx has, or a new
// one.
func ownerFor(ctx context.Context, k *kind) (claim, error) {
	found, ok := ownerIn(ctx, k)
	switch {
	case !ok:
		return claim{owner: k.client.NewOwner(), fresh: true}, nil
	case found.lost != nil && ctx.Err() == nil: // else the call has ended before it began
		return found, found.lost
	case found.owner == (Owner{}):
		return found, fmt.Errorf("holdfast: %w owner: the context carries the zero Owner", ErrInvalid)
	case !found.owner.of(k.client):
		return found, fmt.Errorf("holdfast: %w owner: %v belongs to another client; a hold is handed over by Detach and Adopt",
			ErrInvalid, found.owner)
	}
	if !found.fresh && found.hold == nil {
		if _, err := ParseOwner(found.owner.text); err != nil {
			return found, err
		}
	}
	return found, nil
}

// newUUID returns a random UUID of version 8, in lower case. Redisson's are of
// version 4: the scripts tell by it whose holds they may trust to be renewed in
// full (see rw.lua), and people, whose lock it is. The first bytes of it are returned apart.
func newUUID() (text, prefix string) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), string(b[:protocol.PermitPrefix])
}
