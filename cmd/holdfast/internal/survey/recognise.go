package survey

import (
	"cmp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// What kind something is, is decided in this file alone; the forms of keys and owners are internal/protocol's.

const (
	modeField      = "mode" // of a read-write lock
	longestInteger = 20     // bytes, with a sign; one more is read than that
)

// writerSuffix is that of the field of its writer.
var writerSuffix = protocol.WriterField("")

// field is one of a hash.
type field struct{ name, value string }

// holders are those of a hash that is a lock, without regard to who of them lives; ok is false if it
// is none.
func holders(mode string, fields []field) (found []Holder, ok bool) {
	for _, f := range fields {
		if f.name == modeField && mode != "" {
			continue
		}
		h := Holder{Owner: f.name}
		if mode != "" {
			h.Mode = Reads
			if owner, writes := strings.CutSuffix(f.name, writerSuffix); writes {
				h.Owner, h.Mode = owner, Writes
			}
		}
		if !protocol.IsOwner(h.Owner) {
			return nil, false
		}
		if n, ok := protocol.Integer(f.value); ok { // else it keeps others out all the same
			h.Count = n
		}
		found = append(found, h)
	}
	return found, len(found) == 1 || len(found) > 1 && mode != ""
}

// facts are what a kind is recognised by.
type facts struct {
	keyType string // what TYPE says; "none" if there is no key
	text    string // of a string: what it begins with
	// lock says that a hash is one of ours, and mode that it is a read-write lock.
	lock bool
	mode string
	// What stands beside it. queue is the line of a fair lock, and line that of a plain or a read-write lock, in which there may be a
	// writer, or of permits.
	line, writer, queue, heartbeats, token, permits, calls, zero bool
	next                                                         string
	// Who listens on which channel.
	onLock, onOwner, onRW, onSemaphore, onPermits, onLatch int64
}

// The types of keys.
const (
	typeNone   = "none"
	typeHash   = "hash"
	typeString = "string"
	typeList   = "list"
	typeZSet   = "zset"
)

// recognise returns the kind of what has these facts; ours is false if only its value speaks for it. Where
// there is nothing it is empty, and where there is something else an [ErrOtherKind].
func (f facts) recognise() (kind Kind, ours bool, err error) {
	_, number := protocol.Integer(f.text)
	switch {
	case f.keyType == typeHash && f.lock:
		return f.hash(), true, nil
	case f.keyType == typeString && number:
		kind = cmp.Or(f.counted(), Number)
		return kind, kind != Number || f.calls, nil
	case f.keyType == typeNone:
		return f.nothing(), true, nil
	}
	return "", false, ErrOtherKind
}

// hash is the kind of a lock that somebody holds.
func (f facts) hash() Kind {
	switch {
	case f.mode != "":
		return RW
	case !f.line && (f.heartbeats || f.onOwner > 0), f.queue:
		return Fair
	}
	return Mutex
}

// nothing is the kind of what has no key of its own; empty if nothing tells.
func (f facts) nothing() Kind {
	switch {
	case f.queue:
		return Fair
	case f.onRW > 0 || f.writer:
		return RW
	case f.line && f.wanted() == 0 || f.token || f.onLock > 0:
		return Mutex
	}
	return f.counted()
}

// counted is the kind of a semaphore or a latch; empty if nothing tells.
func (f facts) counted() Kind {
	switch {
	case f.permits || f.onPermits > 0 || f.line:
		return Permits
	case f.onLatch > 0 || f.zero:
		return Latch
	case f.onSemaphore > 0 || f.wanted() > 0:
		return Semaphore
	}
	return ""
}

// wanted is how many permits the one who is next at a semaphore wants.
func (f facts) wanted() int64 {
	n, _, _ := protocol.ReadReservation(f.next)
	return n
}
