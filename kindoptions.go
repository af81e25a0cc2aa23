package holdfast

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// A MutexOption sets something for a [Mutex] from [Client.NewMutex]. Options are not in Redis: use the same ones wherever
// a lock of one name is used. With one that makes no sense every call returns [ErrInvalid].
type MutexOption interface {
	kindOption
	ofMutex()
}

// An RWOption sets something for an [RWMutex]: see [MutexOption].
type RWOption interface {
	kindOption
	ofRW()
}

// An AnyMutexOption sets something for any [Mutex], fair or not, or an [RWMutex].
type AnyMutexOption interface {
	MutexOption
	RWOption
}

// A TokenOption sets something for the tokens of [Fenced] locks.
type TokenOption interface{ applyToken(c *kindConfig) error }

// kindOption is what options of every kind are.
type kindOption interface{ applyKind(c *kindConfig) error }

type (
	mutexOption func(*kindConfig) error
	rwOption    func(*kindConfig)
	anyOption   func(*kindConfig) error
	tokenOption func(*kindConfig) error
)

func (o mutexOption) applyKind(c *kindConfig) error { return o(c) }
func (mutexOption) ofMutex()                        {}

func (o rwOption) applyKind(c *kindConfig) error {
	o(c)
	return nil
}
func (rwOption) ofRW() {}

func (o anyOption) applyKind(c *kindConfig) error { return o(c) }
func (anyOption) ofMutex()                        {}
func (anyOption) ofRW()                           {}

func (o tokenOption) applyToken(c *kindConfig) error { return o(c) }

// kindConfig is what the options of a kind amount to.
type kindConfig struct {
	invalid      error // the first option that has no sense
	nonReentrant bool
	fenced       bool
	tokenTTL     time.Duration // 0: for ever
	polling      *engine.Backoff
	writersFirst bool
}

// kindOptions applies options.
func kindOptions[O kindOption](options []O) (cfg kindConfig) {
	cfg.invalid = applyAll(options, func(option O) error { return option.applyKind(&cfg) })
	return cfg
}

// handle returns a lock with these options.
func (c *kindConfig) handle(client *Client, name string, k *protocol.Kind, requests protocol.Waitable) handle {
	l := newHandle(client, name, k, requests)
	l.NonReentrant, l.Fenced, l.Polling = c.nonReentrant, c.fenced, c.polling
	l.invalid = cmp.Or(c.invalid, l.invalid)
	return l
}

// NonReentrant refuses a nested Lock of an owner with [ErrReentrant], at once, instead of counting it. In Redis nothing
// differs. Redisson: RedissonClient.getNonReentrantLock.
func NonReentrant() AnyMutexOption {
	return anyOption(func(c *kindConfig) error {
		c.nonReentrant = true
		return nil
	})
}

// Fenced gives every hold a token, [Hold.Token], that is greater than those of all holds before. Send it with every write;
// a resource that refuses a token smaller than the last one it has seen is safe from a holder that does not know yet that
// it has lost the lock. Nested holds share one token.
//
// The token is the server's time in microseconds, or the last one plus 1 if that is greater, and below 2^53. So it grows
// even when a failover loses the last ones. In Redis it stands at redisson_lock_token:{name}, for ever unless [TokenTTL]
// is set. Redisson: RFencedLock, whose tokens count up from one, and start again when its key is lost.
func Fenced(options ...TokenOption) AnyMutexOption {
	return anyOption(func(c *kindConfig) error {
		c.fenced = true
		return applyAll(options, func(option TokenOption) error { return option.applyToken(c) })
	})
}

// TokenTTL lets the key of the last fencing token expire d after the last acquire; d is bounded as a lease. Tokens grow
// all the same, as long as the server's clock is not set back by more than d. The default is to keep the key for ever, as
// Redisson does, which counts.
func TokenTTL(d time.Duration) TokenOption {
	return tokenOption(func(c *kindConfig) error { return setLease(&c.tokenTTL, d) })
}

// WritersFirst keeps readers who come while a writer waits from getting in before it, so that a stream of readers cannot
// keep it out for ever. Nested readers get in all the same. Set it where the lock is wanted for writing: all of holdfast's
// readers obey it, Redisson's do not. The default lets every reader join those who read, as Redisson does.
func WritersFirst() RWOption {
	return rwOption(func(c *kindConfig) { c.writersFirst = true })
}

// Polling makes waiters ask again and again instead of listening, and releases say nothing: for locks that are held for
// very short times by many, in a cluster where each message goes to every node. They stand in no line. A waiter that
// listens, as Redisson's do, does not hear of a release by a holder that polls; one that stands in line does. Redisson:
// getSpinLock.
//
// Between two tries a waiter pauses from first to longest, doubling: at random between half of that and all of it. Neither
// may be below 100 µs, or longer than an hour, and longest is not below first. Redisson: LockOptions.ExponentialBackOff,
// with 1 and 128 ms by default; ConstantBackOff if both are the same.
func Polling(first, longest time.Duration) MutexOption {
	return mutexOption(func(c *kindConfig) error {
		c.polling = &engine.Backoff{First: first, Longest: longest}
		if first < 100*time.Microsecond || longest < first || longest > time.Hour {
			return invalid("option: a backoff from %v to %v", first, longest)
		}
		return nil
	})
}
