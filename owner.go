package holdfast

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
)

// Owner is who holds a lock: a client's UUID and a number, in the place where
// Redisson has its client's UUID and the thread's id. It is a value: compare it,
// print it, send it to another process.
//
// One owner is one logical thread. Calls of one owner for one lock come one
// after another, in whichever goroutines and processes.
type Owner struct {
	client string
	number int64
}

// ParseOwner reads an owner as [Owner.String] writes it. It returns an error
// that matches [ErrInvalidOwner] for anything else.
func ParseOwner(s string) (Owner, error) {
	client, number, ok := strings.Cut(s, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || client == "" || err != nil || strconv.FormatInt(n, 10) != number {
		return Owner{}, fmt.Errorf("holdfast: %w: %q is not a client id, a colon and a number", ErrInvalidOwner, s)
	}
	return Owner{client: client, number: n}, nil
}

// String returns the owner as it stands in Redis: client UUID, colon, number.
func (o Owner) String() string {
	if o == (Owner{}) {
		return ""
	}
	return o.client + ":" + strconv.FormatInt(o.number, 10)
}

type ownerKey struct{}

// WithOwner returns a context whose calls belong to owner: Lock under it is
// reentrant with everything that owner holds, here or in another process. The
// context of a hold carries its owner already.
func WithOwner(ctx context.Context, owner Owner) context.Context {
	return context.WithValue(ctx, ownerKey{}, owner)
}

// OwnerFrom returns the owner that ctx carries, and whether it carries one.
func OwnerFrom(ctx context.Context) (Owner, bool) {
	owner, ok := ctx.Value(ownerKey{}).(Owner)
	return owner, ok
}

// withoutOwner returns a context that carries no owner.
func withoutOwner(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, nil)
}

// newUUID returns a random UUID of version 8, in lower case. Redisson's are of
// version 4: the scripts tell by it whose holds they may trust to be renewed in
// full (see rw.lua), and people, whose lock it is.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
