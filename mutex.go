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
// 1,024 bytes, and either no braces or one pair around at least one character,
// which then chooses the cluster slot; with any other name every call returns
// [ErrInvalid]. The names a and {a} are two locks that share the keys and channels beside
// them, as in Redisson: use one of the two. The options are [NonReentrant], [Fenced] and [Polling].
//
// Among processes, whoever asks first after a release gets the lock. Releases are
// announced on redisson_lock__channel:{name}. Redisson: getLock.
func (c *Client) NewMutex(name string, options ...MutexOption) *Mutex {
	config := kindOptions(options)
	return &Mutex{lock{config.kind(c, name, mutexTraits, config.mutex(name))}}
}

var mutexTraits = &engine.Traits{Label: "mutex", Class: "mutex", HandsOver: true, Crowds: true}

// mutex is the protocol of a plain lock with these options.
func (c *kindConfig) mutex(name string) *protocol.Mutex {
	m := protocol.NewMutex(name)
	m.Polling, m.Fenced, m.TokenTTL = c.polling != nil, c.fenced, c.tokenTTL
	return m
}
