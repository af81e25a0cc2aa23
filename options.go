package holdfast

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Bounds and defaults.
const (
	// DefaultLease is the lease that the watchdog renews, as Redisson's
	// lockWatchdogTimeout.
	DefaultLease = 30 * time.Second
	// DefaultTimeout bounds one call to Redis, repetitions included.
	DefaultTimeout = 6 * time.Second
	// MinLease and MaxLease bound every lease. Leases have whole milliseconds;
	// what is below is cut off.
	MinLease = time.Millisecond
	MaxLease = protocol.MaxLeaseMillis * time.Millisecond
)

// config is what the options of a client amount to.
type config struct {
	lease   time.Duration
	maxHold time.Duration // 0: unbounded
	margin  time.Duration
	timeout time.Duration
	hooks   hookList
	// Each acquire waits until so many replicas have acknowledged it, or for so
	// long; 0: none, and no waiting.
	replicas   int
	ackTimeout time.Duration
}

// ClientOption sets something for a whole [Client].
type ClientOption func(*config) error

// WithLease sets the lease of holds that the watchdog renews: how long a crashed
// holder still blocks others. The watchdog renews at a third of it, and sees to
// read holds every 5 s at the latest, whatever their lease. The default
// is [DefaultLease]. Redisson: Config.setLockWatchdogTimeout.
func WithLease(d time.Duration) ClientOption {
	return func(c *config) (err error) {
		c.lease, err = checkLease(d)
		return err
	}
}

// WithMaxHold bounds how long the watchdog keeps a hold alive: at d after the
// acquire it is lost, like a hold that was not renewed. The default is no bound.
// Longer fixed leases are refused with [ErrInvalidLease].
func WithMaxHold(d time.Duration) ClientOption {
	return func(c *config) (err error) {
		c.maxHold, err = checkLease(d)
		return err
	}
}

// WithMargin makes every hold's deadline earlier by d: time for the work to
// notice the end of its context before the lock can be somebody else's. The
// default is 0, beyond the 1 % of the lease plus 2 ms that are always kept.
func WithMargin(d time.Duration) ClientOption {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("holdfast: %w: WithMargin(%v) is negative", ErrInvalidOption, d)
		}
		c.margin = d
		return nil
	}
}

// WithTimeout bounds one call to Redis, repetitions included: TryLock, Unlock,
// ForceUnlock and the questions return within it. A single attempt is waited for
// a third of it, then repeated. A Lock that has been told once that the lock is
// held bears an outage of ten times d before it gives up. The default is
// [DefaultTimeout], the minimum 10 ms.
func WithTimeout(d time.Duration) ClientOption {
	return func(c *config) error {
		if d < 10*time.Millisecond || d > time.Hour {
			return fmt.Errorf("holdfast: %w: WithTimeout(%v) is not between 10ms and 1h", ErrInvalidOption, d)
		}
		c.timeout = d
		return nil
	}
}

// WithReplicaAck has every acquire of the client, of whichever kind, followed by
// WAIT on the same connection: n replicas must acknowledge within timeout that
// they have it, or else it is given back and returns [ErrNotReplicated]. So a
// failover to one of them does not lose a lock that was granted. It is no promise
// that one of them is chosen: with fewer than all replicas, only a failover that
// prefers the most recent one keeps it. Neither are renewals waited for; a lock
// that has been renewed on the primary alone ends earlier after a failover, and
// its holder is told at the next renewal.
//
// The timeout is 1 ms at least and is added to [WithTimeout]'s. While a replica
// is away that n needs, every try takes that long. The default is not to wait, and
// to send no WAIT at all. Redisson: Config.setCheckLockSyncedSlaves and
// setSlavesSyncTimeout, with which one acknowledgement is enough.
func WithReplicaAck(n int, timeout time.Duration) ClientOption {
	return func(c *config) error {
		if n < 1 || timeout < time.Millisecond || timeout > time.Hour {
			return fmt.Errorf("holdfast: %w: WithReplicaAck(%d, %v): at least one replica, and between 1ms and 1h",
				ErrInvalidOption, n, timeout)
		}
		c.replicas, c.ackTimeout = n, timeout
		return nil
	}
}

// WithHooks adds hooks that are told of every hold of the client.
func WithHooks(h Hooks) ClientOption {
	return func(c *config) error {
		c.hooks = append(c.hooks, h)
		return nil
	}
}

// lockConfig is what the options of one acquire amount to.
type lockConfig struct {
	lease   time.Duration // 0: the watchdog's
	wait    time.Duration
	bounded bool // wait counts
	hooks   hookList
	// keep renews a fixed lease until the hold is told to last for it: it is one
	// of several, and the others are still to be had.
	keep bool
}

// LockOption sets something for one acquire.
type LockOption func(*lockConfig) error

// Lease gives the hold a fixed lease: it is not renewed, and is lost when the
// lease has run out. Without it the watchdog renews. A lease outside [MinLease]
// and [MaxLease], or one of which nothing is left beside the 1 % plus 2 ms and
// the margin that are kept, is refused with [ErrInvalidLease]. Redisson: the
// leaseTime of lock and tryLock.
func Lease(d time.Duration) LockOption {
	return func(c *lockConfig) (err error) {
		c.lease, err = checkLease(d)
		return err
	}
}

// Wait bounds how long Lock waits; 0 makes it one try. When it runs out, Lock
// returns an error that matches [ErrLocked], or a [*BackendError] if Redis did
// not answer. The bound holds when Redis is down, too. Without it only the
// context bounds the wait. Redisson: the waitTime of tryLock.
func Wait(d time.Duration) LockOption {
	return func(c *lockConfig) error {
		if d < 0 {
			return fmt.Errorf("holdfast: %w: Wait(%v) is negative", ErrInvalidOption, d)
		}
		c.wait, c.bounded = d, true
		return nil
	}
}

// Observe adds hooks that are told of this one hold, after the client's.
func Observe(h Hooks) LockOption {
	return func(c *lockConfig) error {
		c.hooks = append(c.hooks, h)
		return nil
	}
}

func (cfg *lockConfig) apply(options []LockOption) error {
	for _, option := range options {
		if option == nil {
			return fmt.Errorf("holdfast: %w: one of the options is nil", ErrInvalidOption)
		}
		if err := option(cfg); err != nil {
			return err
		}
	}
	return nil
}

// lockOptions applies options over the client's defaults.
func (c *Client) lockOptions(options []LockOption) (lockConfig, error) {
	cfg := lockConfig{hooks: slices.Clip(c.config.hooks)}
	if err := cfg.apply(options); err != nil {
		return cfg, err
	}
	if cfg.lease > 0 && !c.config.usable(cfg.lease) {
		return cfg, fmt.Errorf("holdfast: %w: %v leaves nothing beside the margin of %v",
			ErrInvalidLease, cfg.lease, c.config.margin)
	}
	if c.config.maxHold > 0 && cfg.lease > c.config.maxHold {
		return cfg, fmt.Errorf("holdfast: %w: %v is longer than the longest hold, %v",
			ErrInvalidLease, cfg.lease, c.config.maxHold)
	}
	return cfg, nil
}

// usable reports whether a lease can be trusted for any time at all.
func (c *config) usable(lease time.Duration) bool {
	return lease-lease/100-2*time.Millisecond-c.margin > 0
}

// checkLease refuses leases out of bounds and cuts to whole milliseconds.
func checkLease(d time.Duration) (time.Duration, error) {
	if d < MinLease || d > MaxLease {
		return 0, fmt.Errorf("holdfast: %w: %v is not between %v and %v", ErrInvalidLease, d, MinLease, MaxLease)
	}
	return d.Truncate(time.Millisecond), nil
}
