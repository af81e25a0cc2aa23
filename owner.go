package holdfast

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/presence"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// Owner is who holds a lock: a client's UUID and a number, in the place where
// Redisson has its client's UUID and the thread's id. That of a permit is the permit's id.
// It is a value: compare it, print it, send it to another process, for Adopt or
// [PermitSemaphore.ReleasePermits].
//
// One owner is one logical thread of the client that made it. Its calls for one
// lock come one after another, in whichever goroutines.
type Owner struct {
	text string // as it stands in Redis
}

// ParseOwner reads an owner as [Owner.String] writes it. It returns an error
// that matches [ErrInvalid] for anything else, and for more than 256 bytes.
func ParseOwner(s string) (Owner, error) {
	o := Owner{s}
	if raw, err := o.permit(); err == nil && hex.EncodeToString([]byte(raw)) == s {
		return o, nil
	}
	if err := o.checkNumbered(); err != nil {
		return Owner{}, err
	}
	return o, nil
}

// checkNumbered refuses what no client has made for its calls.
func (o Owner) checkNumbered() error {
	client, number, ok := strings.Cut(o.text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || client == "" || len(o.text) > protocol.MaxOwner || err != nil || strconv.FormatInt(n, 10) != number {
		return invalid("owner: %.100q is not a client id, a colon and a number", o.text)
	}
	return nil
}

// permit returns the permit whose id it is, as it stands in Redis.
func (o Owner) permit() (string, error) {
	raw, err := hex.DecodeString(o.text)
	if err != nil || len(raw) != 16 {
		return "", invalid("id: %.40q is not the id of a permit, 32 hexadecimal digits", o.text)
	}
	return string(raw), nil
}

// String returns the owner as it stands in Redis: client UUID, colon, number. Of the zero Owner
// that is empty, and of a permit's 32 hexadecimal digits.
func (o Owner) String() string { return o.text }

// shown is the owner for the text of an error: anybody who may write to Redis can make one up.
func (o Owner) shown() string {
	if o.text == presence.Printable(o.text) {
		return o.text
	}
	return visible.Text(fmt.Sprintf("%.100q", o.text))
}

// IsZero reports whether o is the zero Owner, which holds nothing.
func (o Owner) IsZero() bool { return o == Owner{} }

// MarshalText writes the owner as [Owner.String] does.
func (o Owner) MarshalText() ([]byte, error) { return []byte(o.text), nil }

// LogValue returns what [Owner.String] does, for log/slog; of a text that is too long for an owner of a client, or that cannot be printed,
// the first 100 bytes in quotes.
func (o Owner) LogValue() slog.Value { return slog.StringValue(o.shown()) }

// UnmarshalText reads what MarshalText has written. Unlike [ParseOwner] it takes any text:
// not every holder in Redis is a client's.
func (o *Owner) UnmarshalText(text []byte) error {
	*o = Owner{string(text)}
	return nil
}

// WithOwner returns a context whose calls belong to owner, at every lock of the client that made it: Lock under it is
// reentrant with everything that owner holds. It is for a logical thread of one's own; without it each hold has an owner
// of its own, and only [Hold.Context] is reentrant, with that hold's lock. With an owner that another client has made, or
// nobody, Lock returns [ErrInvalid]: see [Client.NewOwner]. A hold goes to another client by [Hold.Detach] and Adopt.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return engine.WithOwner(ctx, owner.text, owner.checkNumbered())
}

// OwnerFrom returns the owner that Lock of l under ctx would belong to, and whether
// there is one: that of the hold of l whose context ctx is, or what [WithOwner] set.
// Otherwise Lock makes a new one.
func OwnerFrom(ctx context.Context, l Locker) (Owner, bool) {
	var of *engine.Lock
	if one := handleOf(l); one != nil {
		of = &one.Lock
	}
	owner, ok := engine.OwnerIn(ctx, of)
	return Owner{owner}, ok
}

// newID returns 16 random bytes.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return string(b[:])
}

// newUUID returns a random UUID of version 8, in lower case, which begins as all those of the tenant do. Redisson's are of
// version 4: the scripts tell by it whose holds they may trust to be renewed in
// full (see rw.lua), and people, whose lock it is. The first bytes of it are returned apart.
func newUUID(tenant string) (text, prefix string) {
	b := []byte(newID())
	copy(b, protocol.TenantMark(tenant))
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), string(b[:protocol.PermitPrefix])
}
