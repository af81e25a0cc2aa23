package engine

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// owners makes the owners of one client: its UUID and a number.
type owners struct {
	client      string       // its UUID
	made, given atomic.Int64 // how many owners acquires have made, and NewOwner has
	kept        atomic.Int64 // how many locks MinHold has kept
}

// NewOwner returns an owner that nobody else has: for a user, who may set it for any lock. Its number is even; the owners
// that acquires make have odd ones.
func (o *owners) NewOwner() string { return o.owner(2 * o.given.Add(1)) }

// nobody returns an owner as whom MinHold keeps a lock: see [protocol.Kept].
func (o *owners) nobody() string { return o.owner(-o.kept.Add(1)) }

// freshOwner returns an owner for one acquire, which nobody knows.
func (o *owners) freshOwner() string { return o.owner(2*o.made.Add(1) - 1) }

func (o *owners) owner(number int64) string {
	var room [64]byte // client is a UUID
	return string(strconv.AppendInt(append(append(room[:0], o.client...), ':'), number, 10))
}

// owns reports whether an owner is one of this client's.
func (o *owners) owns(owner string) bool {
	client, _, _ := strings.Cut(owner, ":")
	return client == o.client
}

// hasMade reports whether an owner of this client was made by it. Of another one an acquire might think that it is new.
func (o *owners) hasMade(owner string) bool {
	n, last := numberOf(owner), 2*o.given.Load()
	if n%2 != 0 {
		last = 2*o.made.Load() - 1
	}
	return n > 0 && n <= last
}

// numberOf is the number of an owner; 0 if it has none.
func numberOf(owner string) int64 {
	n, err := strconv.ParseInt(owner[strings.IndexByte(owner, ':')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
