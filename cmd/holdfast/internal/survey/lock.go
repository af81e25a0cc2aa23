package survey

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Kind is what kind of lock something is, as far as Redis shows it.
type Kind string

// The kinds. A part of a multi-lock or of a RedLock is a [Mutex] like any other.
const (
	// Mutex is the plain lock and its variants. A [Fair] lock that nobody waits for may
	// look the same.
	Mutex Kind = "mutex"
	// Fair is the lock with a line.
	Fair Kind = "fair"
	// RW is the read-write lock.
	RW Kind = "rw"
	// Permits is the semaphore whose permits have leases.
	Permits Kind = "permits"
	// Semaphore is the one whose permits have none: Redis does not say who has them.
	Semaphore Kind = "semaphore"
	// Latch is the latch that counts down.
	Latch Kind = "latch"
	// Number is an integer of which Redis does not say what it is: a semaphore, a latch, or
	// somebody else's data. See [Lock.Ours].
	Number Kind = "number"
)

// Kinds are all of them: the namespaces of locks, and Number.
func Kinds() (all []Kind) {
	for _, k := range protocol.Kinds {
		if kind := Kind(k.Namespace); !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return append(all, Number)
}

// State is how something stands.
type State string

// The states.
const (
	// Held says that somebody holds it, or a permit of it.
	Held State = "held"
	// Free says that nobody does; of a [Semaphore], that there are permits.
	Free State = "free"
	// Exhausted says of a [Semaphore] that it has no permits left. Who has them is not known.
	Exhausted State = "exhausted"
	// Closed says of a [Latch] that its count is above zero, and Open that it is not.
	Closed State = "closed"
	Open   State = "open"
	// Unknown is the state of a [Number].
	Unknown State = "unknown"
)

// The modes of those who hold a read-write lock.
const (
	Reads  = protocol.ModeRead
	Writes = protocol.ModeWrite
)

// Lock is one lock, semaphore or latch, as it was read. What a kind does not have is zero.
type Lock struct {
	// Name is the name of the lock. It may hold any bytes.
	Name  string
	Kind  Kind
	State State
	// Ours is false for a [Number] that nothing but its value speaks for.
	Ours bool
	// At is when it was read, by Redis's clock.
	At time.Time
	// TTL is how long the key at the name lives unless renewed; 0 if there is none, and
	// [holdfast.NoExpiry] if it does not expire.
	TTL time.Duration
	// Mode is that of a read-write lock that is held: [Reads] or [Writes].
	Mode string
	// Token is the last fencing token; 0: none.
	Token int64
	// Holders are who holds it, as many as were asked for. HolderCount is how many there are.
	// Of a read-write lock with more than were asked for, it counts readers who have died.
	Holders     []Holder
	HolderCount int
	// Waiters are those of whom Redis knows that they wait, the next one first: the line of a
	// [Fair] lock, a [Mutex], an [RW] or [Permits], as many of it as were asked for; who is next at a
	// semaphore.
	Waiters []Waiter
	// Line is how many stand in it, of a [Fair] lock, a [Mutex], an [RW] or [Permits].
	Line int
	// Waiting is how many wait, as far as that is known: those in line, and of all but a [Fair] lock the
	// processes that listen for a release, without the holders that do.
	Waiting int
	// Listeners is how many connections listen on the lock's channel, at its primary. Each process
	// that waits and stands in no line has one, however many wait in it; a holder of holdfast's may be
	// one of them. It is 0 for a [Fair] lock, of which each waiter has a channel of its own.
	Listeners int
	// Total, Available and Taken are the permits of [Permits]; of a [Semaphore], only Available
	// is known. Available is below 0 if more are held than there are.
	Total, Available, Taken int64
	// Count is that of a [Latch], or the value of a [Number].
	Count int64
}

// Holder is one who holds a lock.
type Holder struct {
	// Owner is the holder as it stands in Redis: a client's UUID, a colon, a number; of a
	// permit, its id in hexadecimal digits.
	Owner string
	Who   holdfast.Identity // zero: not known
	// Mode is that of a read-write lock's holder; one owner may have both.
	Mode string
	// Count is how often it holds the lock; 0 or less if what stands there is no such number.
	Count int64
	// Since is since when, by Redis's clock; zero: not known. It is not known of clients that are
	// no holdfast's, nor in the first second of a hold.
	Since time.Time
	// TTL is how long it holds the lock unless that is renewed; [holdfast.NoExpiry] for ever.
	TTL time.Duration
}

// Waiter is one of whom Redis knows that it waits.
type Waiter struct {
	Owner string
	Who   holdfast.Identity
	Mode  string // what it wants of a read-write lock: [Reads] or [Writes]
	Wants int64  // how many permits; 0 if it is no semaphore
	// Since is the time at which it joined the waitlist, by Redis's clock; zero if that is not known. It is not known for Redisson
	// waiters and unlisted ones.
	Since time.Time
	// Silent says that it is one of holdfast's and was not heard of for too long, so it does not get
	// the lock any more unless it is heard of; or that nothing speaks for it.
	Silent bool
}

// HeldFor is for how long a holder held the lock when it was read; 0: not known.
func (l Lock) HeldFor(h Holder) time.Duration {
	if h.Since.IsZero() {
		return 0
	}
	return max(l.At.Sub(h.Since), 0)
}

// WaitedFor returns how long a waiter had been in the waitlist when the lock was read; 0 if that is not known, or it has just joined.
func (l Lock) WaitedFor(w Waiter) time.Duration {
	if w.Since.IsZero() {
		return 0
	}
	return max(l.At.Sub(w.Since), 0)
}

// Longest is for how long the one who has held it longest has done so; 0: not known.
func (l Lock) Longest() (longest time.Duration) {
	for _, h := range l.Holders {
		longest = max(longest, l.HeldFor(h))
	}
	return longest
}

// AllInLine reports whether all who wait stand in line.
func (l Lock) AllInLine() bool {
	return l.Kind == Fair || (l.Kind == Mutex || l.Kind == RW || l.Kind == Permits && l.Line > 0) && l.Line == l.Waiting
}

// Left is for how long it is held at most unless that is renewed; [holdfast.NoExpiry] for ever.
func (l Lock) Left() (left time.Duration) {
	for _, h := range l.Holders {
		if h.TTL == holdfast.NoExpiry {
			return holdfast.NoExpiry
		}
		left = max(left, h.TTL)
	}
	return left
}

// ErrNotFound says that there is nothing of that name: a lock that nobody holds leaves nothing.
var ErrNotFound = errors.New("there is no such lock")

// ErrOtherKind says that what has the name is none of ours.
var ErrOtherKind = errors.New("the name is another kind of object in Redis")
