package holdfast

import (
	"cmp"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// Bounds and defaults.
const (
	// DefaultLease is the lease that the watchdog renews, as Redisson's lockWatchdogTimeout.
	DefaultLease = 30 * time.Second
	// MaxTenant is how many bytes the name of a tenant has at most: see [WithTenant].
	MaxTenant = 128
	// DefaultTimeout bounds one call to Redis, repetitions included.
	DefaultTimeout = 6 * time.Second
	// NoExpiry is the time to live of what does not expire: longer than any other.
	NoExpiry time.Duration = math.MaxInt64
	// MinLease and MaxLease bound every lease. Leases have whole milliseconds; what is below is cut off.
	MinLease = time.Millisecond
	MaxLease = protocol.MaxLeaseMillis * time.Millisecond
)

// config is what the options of a client amount to.
type config struct {
	engine.Config

	hooks  hookList
	tenant string // empty: none
	// identity is what [WithIdentity] says; anonymous: the client says nothing.
	identity  Identity
	anonymous bool
}

// A ClientOption sets something for a whole [Client].
type ClientOption interface{ applyClient(c *config) error }

// A LockOption sets something for one Lock or Acquire.
type LockOption interface{ applyLock(c *lockConfig) error }

// A TryOption sets something for one Lock, Acquire, TryLock, TryAcquire or Adopt.
type TryOption interface {
	LockOption
	applyTry()
}

// A WaitOption sets something for whatever waits: one Lock, Acquire or Await.
type WaitOption interface {
	LockOption
	applyWait()
}

// A HooksOption sets something for a whole [Client], or for one call.
type HooksOption interface {
	ClientOption
	TryOption
	WaitOption
}

type (
	clientOption func(*config) error
	tryOption    func(*lockConfig) error
	waitOption   func(*lockConfig) error
	hooksOption  Hooks
)

func (o clientOption) applyClient(c *config) error { return o(c) }

func (o tryOption) applyLock(c *lockConfig) error { return o(c) }
func (tryOption) applyTry()                       {}

func (o waitOption) applyLock(c *lockConfig) error { return o(c) }
func (waitOption) applyWait()                      {}

func (o hooksOption) applyClient(c *config) error {
	c.hooks = append(c.hooks, Hooks(o))
	return nil
}

func (o hooksOption) applyLock(c *lockConfig) error {
	c.hooks = append(c.hooks, Hooks(o))
	return nil
}
func (hooksOption) applyTry()  {}
func (hooksOption) applyWait() {}

// errNilOption is the error for an option that is nil.
var errNilOption = invalid("option: one of them is nil")

// applyAll applies options, and returns the first error.
func applyAll[O any](options []O, apply func(O) error) (first error) {
	for _, option := range options {
		err := errNilOption
		if any(option) != nil {
			err = apply(option)
		}
		first = cmp.Or(first, err)
	}
	return first
}

// WithTenant has the client's UUID begin with eight hexadecimal digits that stand for the tenant: the programs that share
// locks on a Redis that others use, too. Access rights can then be limited to the tenant's channels and keys that have a
// client's UUID in their name, so that nobody else can publish a grant to its waiters, or write who its clients are;
// docs/acl.md has the rights, and the command holdfast acl prints them. All clients that share a lock need the same tenant.
// The digits are no secret: those of "billing" are the first that
//
//	printf billing | sha256sum
//
// prints. A tenant is a text of 1 to [MaxTenant] bytes, else [New] returns [ErrInvalid]. The default is none: the digits are random.
func WithTenant(name string) ClientOption {
	return clientOption(func(c *config) error {
		if name == "" || len(name) > MaxTenant {
			return invalid("option: WithTenant(%.40q) is not a name of 1 to %d bytes", name, MaxTenant)
		}
		c.tenant = name
		return nil
	})
}

// WithLease sets the lease of holds that the watchdog renews: how long a crashed holder still blocks others. The watchdog
// renews at a third of it, read holds every 5 s at the latest. The default is [DefaultLease], the bounds are [MinLease]
// and [MaxLease]. [RenewedLease] sets another for one call. Redisson: Config.setLockWatchdogTimeout.
func WithLease(d time.Duration) ClientOption {
	return clientOption(func(c *config) error { return setLease(&c.Lease, d) })
}

// WithMaxHold bounds how long the watchdog keeps a hold alive: it is lost d after the acquire of the outermost hold, and
// so is a read hold that its owner acquires while writing, or by [RWMutex.Downgrade]. The default is no bound; d is
// between [MinLease] and [MaxLease], or [New] returns [ErrInvalid]. A fixed lease that is longer than d, or than what is
// left of it, is refused with ErrInvalid; RWMutex.Downgrade and a [MultiLock] cut the latter. Renewed leases are cut.
func WithMaxHold(d time.Duration) ClientOption {
	return clientOption(func(c *config) error { return setLease(&c.MaxHold, d) })
}

// WithMargin makes every hold's deadline earlier by d: time for the work to notice the end of its context. The default is
// 0, beyond the 1 % of the lease plus 2 ms that are always kept. [New] returns [ErrInvalid] if d is negative, or not below
// half of the lease; so does an acquire with a [RenewedLease] too short for it.
func WithMargin(d time.Duration) ClientOption {
	return clientOption(func(c *config) error {
		if d < 0 {
			return invalid("option: WithMargin(%v) is negative", d)
		}
		c.Margin = d
		return nil
	})
}

// WithTimeout bounds one call to Redis, repetitions included: TryLock, Unlock, ForceUnlock and Inspect return within d.
// Where they ask who holds the lock they take up to 250 ms more (Inspect: a second), but at most 2d in all; so does a Lock
// whose [Wait] is over, or the deadline of its context: see [WithoutIdentity]. [RWMutex.Downgrade] and a [MultiLock] make
// several calls, and [WithReplicaAck] waits besides. An attempt is repeated after a third of d. A Lock that was refused
// once bears an outage of ten times d before it gives up. If Redis refuses credentials that it has accepted before, or no longer
// has the scripts of a user without EVAL, that is an outage. The default is [DefaultTimeout], the bounds are 10 ms and an hour.
func WithTimeout(d time.Duration) ClientOption {
	return clientOption(func(c *config) error {
		if d < 10*time.Millisecond || d > time.Hour {
			return invalid("option: WithTimeout(%v) is not between 10ms and 1h", d)
		}
		c.Timeout = d
		return nil
	})
}

// WithoutHandOver has every Unlock release its lock in Redis, and every reader ask there. Otherwise a hold passes to the
// first who waits for it in this process, without a word to Redis, for some milliseconds after the grant; then other
// processes have their turn. It is one of a [Mutex] that is neither fair nor [Fenced] nor [Polling]; both have the same
// lease, which is renewed. A hold does not pass on if it is nested or extended, or if somebody has asked for its owner.
// Readers of this process share what Redis has granted to one of them within the same millisecond.
func WithoutHandOver() ClientOption {
	return clientOption(func(c *config) error {
		c.HandsOver = false
		return nil
	})
}

// WithReplicaAck follows every acquire of the client, of whichever kind, by WAIT on the same connection: n replicas
// must acknowledge within timeout that they have it, or it is given back and returns [ErrNotReplicated]. So a failover
// to one of them does not lose a granted lock; one to another replica may. If n is the number of all replicas, a primary
// that was replaced grants nothing, and fencing tokens rise whatever the servers' clocks say. Renewals do not wait: a lock
// may end earlier after a failover, and the next renewal tells its holder.
//
// The timeout is 1 ms at least and is added to [WithTimeout]'s. While a needed replica is away, every try takes that long, also
// one that its caller has given up; [Client.Close] fails if that is not over within WithTimeout's.
// The default sends no WAIT. Redisson: Config.setCheckLockSyncedSlaves and setSlavesSyncTimeout, with which one
// acknowledgement is enough.
func WithReplicaAck(n int, timeout time.Duration) ClientOption {
	return clientOption(func(c *config) error {
		if n < 1 || timeout < time.Millisecond || timeout > time.Hour {
			return invalid("option: WithReplicaAck(%d, %v): at least one replica, and between 1ms and 1h", n, timeout)
		}
		c.Replicas, c.AckTimeout = n, timeout
		return nil
	})
}

// WithHooks adds hooks. Of a client, they are told of everything that it does; of one
// call, of that call and its hold, after the client's.
func WithHooks(h Hooks) HooksOption { return hooksOption(h) }

// FixedLease gives the hold a lease that the watchdog does not renew: it is lost when that has run out. [ErrInvalid] if d
// is outside [MinLease] and [MaxLease], leaves nothing beside the 1 % plus 2 ms and the margin that are kept, or stands
// beside a [RenewedLease]. Redisson: the leaseTime of lock and tryLock.
func FixedLease(d time.Duration) TryOption {
	return tryOption(func(c *lockConfig) error { return c.setLease(true, d) })
}

// RenewedLease gives the hold a lease of its own for the watchdog to renew, in place of [WithLease]'s: a short one for
// another to follow a crashed holder soon, a long one where Redis may be away for longer. It is bounded as a [FixedLease]
// is. While an owner has several holds of a lock, the longest of their leases is renewed. Redisson has one for all.
func RenewedLease(d time.Duration) TryOption {
	return tryOption(func(c *lockConfig) error { return c.setLease(false, d) })
}

// MinHold keeps the lock from others for at least d after the acquire, however soon it is unlocked: for a job that is to
// run once an hour on one of many machines whose clocks differ by less. An earlier Unlock ends the hold at once, and
// leaves the lock to an owner that no client uses for the rest of d; so does closing the client. If the process crashes,
// the lock lasts at least as long (each of several locks since it was acquired). The same owner does not get it either;
// [Mutex.ForceUnlock] ends that. The hold cannot be detached. Of several locks, none is kept beyond its own [WithMaxHold]
// time, which begins when it is acquired, while others are still waited for.
//
// d is bounded as a [FixedLease] is, and is not longer than one, or [WithMaxHold]. [ErrInvalid] for readers and
// permits; nothing is kept by a writer that reads on.
func MinHold(d time.Duration) TryOption {
	return tryOption(func(c *lockConfig) error { return setLease(&c.MinHold, d) })
}

// Wait bounds how long Lock waits; 0 makes it one try. When it runs out, Lock
// returns an error that matches [ErrLocked], or a [*BackendError] if Redis did
// not answer. The bound holds when Redis is down, too; who holds the lock is asked after it, as [WithTimeout] says.
// Without it only the context bounds the wait. An Acquire returns [ErrNoPermits] then, an Await [ErrNotZero]. A d
// below 0 is [ErrInvalid]. Redisson: the waitTime of tryLock.
func Wait(d time.Duration) WaitOption {
	return waitOption(func(c *lockConfig) error {
		if d < 0 {
			return invalid("option: Wait(%v) is negative", d)
		}
		c.Wait, c.OneTry = d, d == 0
		return nil
	})
}

// lockConfig is what the options of one acquire amount to. A lease of 0 is the client's.
type lockConfig struct {
	engine.Args

	invalid error // the first option that has no sense
	hooks   hookList
}

// setLease sets the lease, which is fixed or renewed, and not both.
func (c *lockConfig) setLease(fixed bool, d time.Duration) error {
	if c.Lease != 0 && c.Fixed != fixed {
		return invalid("option: FixedLease and RenewedLease are given; a lease is renewed or it is not")
	}
	c.Fixed = fixed
	return setLease(&c.Lease, d)
}

// configOf applies the options of a call that may wait.
func configOf[O LockOption](options []O) lockConfig {
	if len(options) == 0 {
		return lockConfig{}
	}
	var cfg lockConfig // on the heap, for the options
	cfg.invalid = applyAll(options, func(option O) error { return option.applyLock(&cfg) })
	return cfg
}

// toTry applies the options of a call that does not wait.
func toTry[O LockOption](options []O) lockConfig {
	cfg := configOf(options)
	cfg.OneTry = true
	return cfg
}

// usable reports whether a lease can be trusted for any time at all.
func (c *config) usable(lease time.Duration) bool {
	return lease-lease/100-2*time.Millisecond-c.Margin > 0
}

// renewable reports whether a renewed lease leaves time for renewals.
func (c *config) renewable(lease time.Duration) bool {
	return c.usable(lease) && (c.Margin == 0 || c.Margin < lease/2)
}

// checkLease refuses leases out of bounds and cuts to whole milliseconds.
func checkLease(d time.Duration) (time.Duration, error) {
	if d < MinLease || d > MaxLease {
		return 0, invalid("lease: %v is not between %v and %v", d, MinLease, MaxLease)
	}
	return d.Truncate(time.Millisecond), nil
}

// setLease sets a lease to d, as checkLease has it.
func setLease(lease *time.Duration, d time.Duration) (err error) {
	*lease, err = checkLease(d)
	return err
}
