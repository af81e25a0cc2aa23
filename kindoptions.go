package holdfast

import (
	"cmp"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// A MutexOption sets something for a [Mutex] from [Client.NewMutex]. Options are not in
// Redis: use the same ones wherever a lock of one name is used. One that makes no sense
// makes every call return [ErrInvalid].
type MutexOption interface {
	kindOption
	ofMutex()
}

// An RWOption sets something for an [RWMutex], as a [MutexOption] does for a Mutex.
type RWOption interface {
	kindOption
	ofRW()
}

// An AnyMutexOption sets something for any [Mutex], a fair one included, or an [RWMutex].
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
func (c *kindConfig) handle(client *Client, name string, t *engine.Traits, requests protocol.Waitable) handle {
	if c.nonReentrant || c.fenced || c.polling != nil {
		own := *t
		own.NonReentrant, own.Fenced, own.Polling = c.nonReentrant, c.fenced, c.polling
		own.HandsOver = t.HandsOver && !c.fenced && c.polling == nil
		own.Line = t.Line && c.polling == nil // who hears nothing is granted nothing
		t = &own
	}
	l := newHandle(client, name, t, requests)
	l.invalid = cmp.Or(c.invalid, l.invalid)
	return l
}

// NonReentrant refuses a nested Lock of an owner with [ErrReentrant], at once,
// instead of counting it: for code in which nesting is a mistake. In Redis
// nothing differs. Redisson: RedissonClient.getNonReentrantLock.
func NonReentrant() AnyMutexOption {
	return anyOption(func(c *kindConfig) error {
		c.nonReentrant = true
		return nil
	})
}

// Fenced gives every hold a token, [Hold.Token], that is greater than those of
// all holds before. Send it with every write; a resource that refuses a token
// smaller than the last one it has seen is safe from a holder that has lost the lock
// and does not know it yet. Nested holds share the token of the outermost one.
//
// The token is the server's time in microseconds, or one more than the last, if
// that is greater. So it still grows when a failover loses the last ones. It is
// below 2^53. In Redis it stands at redisson_lock_token:{name}, for ever unless
// [TokenTTL] is set. Redisson: RFencedLock, whose tokens count up from one, and
// so start again when its key is lost.
func Fenced(options ...TokenOption) AnyMutexOption {
	return anyOption(func(c *kindConfig) error {
		c.fenced = true
		return applyAll(options, func(option TokenOption) error { return option.applyToken(c) })
	})
}

// TokenTTL lets the key of the last fencing token expire d after the last
// acquire. Tokens grow all the same, because they follow the server's time, as
// long as its clock is not set back by more than d. It is bounded as a lease. The default is to keep the key
// for ever, as Redisson does, which counts.
func TokenTTL(d time.Duration) TokenOption {
	return tokenOption(func(c *kindConfig) error { return setLease(&c.tokenTTL, d) })
}

// WritersFirst keeps readers who come while a writer waits from getting in before
// it, so that a stream of readers cannot keep it out for ever. Nested readers get
// in all the same. Set it where the lock is wanted for writing; readers look
// whether a writer waits in any case. Redisson's readers do not: there, it helps
// against holdfast's readers only. The default lets every reader join those who
// read, as Redisson does.
func WritersFirst() RWOption {
	return rwOption(func(c *kindConfig) { c.writersFirst = true })
}

// Polling makes waiters ask again and again instead of listening, and releases
// say nothing: for locks that are held for very short times by many, in a
// cluster where each message goes to every node. They stand in no line. A waiter of the
// same lock that listens, as Redisson's do, is not told of a release by a holder that polls;
// one that stands in line is. Redisson: getSpinLock.
//
// Between two tries a waiter pauses from first to longest, doubling: between half of
// that and all of it, at random, so that waiters do not go in step. Neither may be below
// 100 µs, or longer than an hour, and longest is not below first. Redisson: LockOptions.ExponentialBackOff, with 1 and 128 ms by default;
// ConstantBackOff if both are the same.
func Polling(first, longest time.Duration) MutexOption {
	return mutexOption(func(c *kindConfig) error {
		c.polling = &engine.Backoff{First: first, Longest: longest}
		if first < 100*time.Microsecond || longest < first || longest > time.Hour {
			return invalid("option: a backoff from %v to %v", first, longest)
		}
		return nil
	})
}
