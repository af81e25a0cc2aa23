package holdfast

import (
	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Mutex is a reentrant lock: one owner holds it, as often as it likes. Get one
// from [Client.NewMutex], or from [Client.NewFairMutex] if waiters of all processes
// come first, first served. Make as many of one name as you like, they are the same
// lock; but do not use both kinds under one name. All methods are safe for concurrent
// use.
//
// In Redis it is a hash at the lock's name, with the owner as its field and the
// number of holds as the value, that expires with the lease. Redisson: RLock, which
// is what its getLock and getFairLock return; with [Fenced] RFencedLock, with [Polling]
// the spin lock, with [NonReentrant] the lock of that name.
type Mutex struct {
	lock
}

// NewMutex returns the lock of the given name. It does no I/O. A name has 1 to
// 1,024 bytes. It has no braces; or its first closing one stands behind its first opening one, with at
// least one character between, and these choose the cluster slot. With any other name every call returns
// [ErrInvalid]. The names a and {a} are two locks that share the keys and channels beside
// them, as in Redisson: use one of the two. The options are [NonReentrant], [Fenced] and [Polling].
//
// Waiters of several processes get the lock in the order in which they came, as a rule
// and not as a promise: one of each stands in a line in Redis, and a release grants the lock
// to the first. One that is dead is passed over; a process passes the lock on inside for
// some milliseconds before others have their turn; and who does not stand in line, as
// Redisson's waiters, has turns in between. Inspect shows its first thousand places. The line
// stands at holdfast_line:{name}, holdfast_asks:{name} and holdfast_turn:{name}; a lock that
// becomes free is announced on redisson_lock__channel:{name}. Redisson: getLock.
func (c *Client) NewMutex(name string, options ...MutexOption) *Mutex {
	config := kindOptions(options)
	return &Mutex{lock{config.handle(c, name, mutexTraits, config.mutex(name))}}
}

var mutexTraits = &engine.Traits{Label: "mutex", Class: "mutex", HandsOver: true, Line: true}

// mutex is the protocol of a plain lock with these options.
func (c *kindConfig) mutex(name string) *protocol.Mutex {
	m := protocol.NewMutex(name)
	m.Polling, m.Fenced, m.TokenTTL = c.polling != nil, c.fenced, c.tokenTTL
	return m
}

// NewFairMutex returns a [Mutex] that is fair: waiters of all processes come first,
// first served. It does no I/O. What names there are, [Client.NewMutex] says. The
// options are [NonReentrant] and [Fenced].
//
// Lock takes the last place in a line that stands in Redis, and keeps it until it
// is let in or returns; Inspect shows its first thousand places. TryLock never
// takes a place, and is refused while others stand in line, though the lock be
// free: its [LockedError] then has neither a Holder nor a TTL. A nested Lock does
// not wait, and so takes no place either.
//
// A waiter asks again every one and a half seconds, which is also how its place is kept:
// one that has not been heard of for four and a half seconds, because its process was killed
// or cut off, say, is out of the line, and the next one is let in. (Behind the first eight
// of more than 125, both times are longer.) If it does come
// back, it takes the last place. Time in which Redis itself did not answer anybody
// does not count, up to two minutes; but whoever asks for the first time right
// after it may be let in before those who wait. A request that is lost is repeated
// after a third of the client's timeout, so a [WithTimeout] beyond 8 s can cost a
// place.
//
// In Redis it is the hash of every Mutex, and beside it the line: a list at
// redisson_lock_queue:{name}, and the times until which Redisson believes in each
// waiter at redisson_lock_timeout:{name}; those of holdfast's own waiters stand in
// holdfast_lock_waiting:{name} in addition, and what they have asked last in
// holdfast_asks:{name}. A release grants the lock to one of them that is next, and says
// so on its client's channel, holdfast_granted:client. One of Redisson's, or one without
// the right to that, is told on a channel of its own, redisson_lock__channel:{name}:owner. Waiters
// of holdfast and Redisson stand in one line. A Mutex of the same name from NewMutex respects the holder but
// not the line, and should not be used beside it. Redisson: getFairLock, with
// [NonReentrant] getNonReentrantFairLock.
func (c *Client) NewFairMutex(name string, options ...AnyMutexOption) *Mutex {
	config := kindOptions(options)
	return &Mutex{lock{config.handle(c, name, fairTraits, protocol.Fair{Mutex: config.mutex(name)})}}
}

var fairTraits = &engine.Traits{Label: "fair", Class: "fair", Line: true, AlwaysStands: true, Registers: true}
