package holdfast

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// mutexConfig is what the options of a kind amount to.
type mutexConfig struct {
	invalid      error // the first option that has no sense
	nonReentrant bool
	fenced       bool
	tokenTTL     time.Duration // 0: for ever
	polling      bool
	backoff      Backoff
	writersFirst bool
}

// MutexOption sets something for one lock. An option that has no sense for its
// kind makes every call return [ErrInvalidOption]. Options are not in Redis: use
// the same ones wherever a lock of one name is used.
type MutexOption func(*mutexConfig) error

// mutexOptions applies options.
func mutexOptions(options []MutexOption) mutexConfig {
	var cfg mutexConfig
	for _, option := range options {
		err := fmt.Errorf("holdfast: %w: one of the options is nil", ErrInvalidOption)
		if option != nil {
			err = option(&cfg)
		}
		if err != nil && cfg.invalid == nil {
			cfg.invalid = err
		}
	}
	if cfg.tokenTTL > 0 && !cfg.fenced && cfg.invalid == nil {
		cfg.invalid = fmt.Errorf("holdfast: %w: TokenTTL without Fenced", ErrInvalidOption)
	}
	return cfg
}

// without makes an option that a kind cannot have an error.
func (c *mutexConfig) without(set bool, option, reason string) {
	if set && c.invalid == nil {
		c.invalid = fmt.Errorf("holdfast: %w: %s: %s", ErrInvalidOption, option, reason)
	}
}

// NonReentrant refuses a nested Lock of an owner with [ErrReentrant], at once,
// instead of counting it: for code in which nesting is a mistake. In Redis
// nothing differs. Redisson: RedissonClient.getNonReentrantLock.
func NonReentrant() MutexOption {
	return func(c *mutexConfig) error {
		c.nonReentrant = true
		return nil
	}
}

// Fenced gives every hold a token, [Hold.Token], that is greater than those of
// all holds before. Send it with every write; a resource that refuses a token
// smaller than the last one it has seen is safe from a holder that does not know
// yet that it is one no more. Nested holds share the token of the outermost one.
//
// The token is the server's time in microseconds, or one more than the last, if
// that is greater. So it still grows when a failover loses the last ones. It is
// below 2^53. In Redis it stands at redisson_lock_token:{name}, for ever unless
// [TokenTTL] is set. Redisson: RFencedLock, whose tokens count up from one, and
// so start again when its key is lost.
func Fenced() MutexOption {
	return func(c *mutexConfig) error {
		c.fenced = true
		return nil
	}
}

// TokenTTL lets the key of the last fencing token expire d after the last
// acquire. Tokens grow all the same, because they follow the server's time, as
// long as its clock is not set back by more than d. It needs [Fenced]. The
// default is to keep the key for ever, as Redisson does, which counts.
func TokenTTL(d time.Duration) MutexOption {
	return func(c *mutexConfig) (err error) {
		c.tokenTTL, err = checkLease(d)
		return err
	}
}

// WritersFirst keeps readers who come while a writer waits from getting in before
// it, so that a stream of readers cannot keep it out for ever. Nested readers get
// in all the same. Set it where the lock is wanted for writing; readers look
// whether a writer waits in any case. Redisson's readers do not: there, it helps
// against holdfast's readers only. The default lets every reader join those who
// read, as Redisson does. Only for [Client.NewRWMutex].
func WritersFirst() MutexOption {
	return func(c *mutexConfig) error {
		c.writersFirst = true
		return nil
	}
}

// Polling makes waiters ask again and again instead of listening, and releases
// say nothing: for locks that are held for very short times by many, in a
// cluster where each message goes to every node. A waiter that listens to the
// same lock, here or in Redisson, is not told of a release by a holder that
// polls, and finds out by itself within three seconds. Redisson: getSpinLock.
func Polling(b Backoff) MutexOption {
	return func(c *mutexConfig) error {
		c.polling, c.backoff = true, b
		return b.check()
	}
}

// Backoff is how long a polling waiter pauses between two tries: from a first to
// a longest pause, doubling. What is waited is between half of that and all of
// it, at random, so that waiters do not go in step. The zero Backoff goes from
// 1 ms to 128 ms. Redisson: LockOptions.BackOff.
type Backoff struct {
	first, longest time.Duration
	given          bool // it is not the zero Backoff
}

// ExponentialBackoff doubles the pause from first to longest. Neither may be
// below 100 µs. Redisson: LockOptions.ExponentialBackOff.
func ExponentialBackoff(first, longest time.Duration) Backoff {
	return Backoff{first: first, longest: longest, given: true}
}

// ConstantBackoff pauses for d each time. Redisson: LockOptions.ConstantBackOff,
// which has 64 ms by default, and no jitter.
func ConstantBackoff(d time.Duration) Backoff { return ExponentialBackoff(d, d) }

func (b Backoff) check() error {
	if b.given && (b.first < 100*time.Microsecond || b.longest < b.first || b.longest > time.Hour) {
		return fmt.Errorf("holdfast: %w: a backoff from %v to %v", ErrInvalidOption, b.first, b.longest)
	}
	return nil
}

// pause is how long to wait after so many tries.
func (b Backoff) pause(tries int) time.Duration {
	if !b.given {
		b = ExponentialBackoff(time.Millisecond, 128*time.Millisecond)
	}
	d := b.first
	for range tries {
		if d >= b.longest {
			break
		}
		d = min(2*d, b.longest)
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter, not a secret
}
