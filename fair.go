package holdfast

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// FairMutex is a [Mutex] whose waiters get it in the order in which they came, over
// all processes. Get one from [Client.NewFairMutex]. All methods are safe for
// concurrent use.
//
// Each waiter has a place in a line in Redis, and keeps it for as long as it asks
// again every few seconds. One that gives up leaves the line at once, one that
// dies within ten seconds. TryLock does not stand in line, and does not overtake
// those who do.
//
// In Redis the lock is as a [Mutex]; the line is a list at
// redisson_lock_queue:{name}, with the waiters' times in sorted sets at
// redisson_lock_timeout:{name} and, which Redisson does not know,
// holdfast_lock_waiting:{name}. Whose turn it is hears of it on
// redisson_lock__channel:{name}:owner. Redisson: RedissonClient.getFairLock.
type FairMutex struct {
	lock
}

// NewFairMutex returns the fair lock of the given name, for which the rules of
// [Client.NewMutex] hold. It does no I/O. The options are [NonReentrant], [Fenced]
// and [TokenTTL]. Redisson: getFairLock.
func (c *Client) NewFairMutex(name string, options ...MutexOption) *FairMutex {
	config := mutexOptions(options)
	config.without(config.polling, "Polling", "the waiters of a fair mutex are told when it is their turn")
	config.without(config.writersFirst, "WritersFirst", "a mutex has no readers")
	return &FairMutex{lock{newKind(c, name, "fair", fair{name: name, config: config}, config)}}
}

var _ Locker = (*FairMutex)(nil)

// fair is the dialect of the fair lock.
type fair struct {
	name   string
	config mutexConfig
}

// keys are those of every script.
func (l fair) keys(token bool) []string {
	keys := append([]string{l.name}, l.aside()...)
	keys = append(keys, wire.LockChannel(l.name))
	if token {
		keys = append(keys, wire.Token(l.name))
	}
	return keys
}

func (l fair) acquire(w wish) request {
	waits := "0"
	if w.waiting {
		waits = "1"
	}
	return request{
		script: script.Fair.Acquire, keys: l.keys(w.token),
		args: []string{
			millis(w.lease), w.owner.String(), strconv.Itoa(w.from), strconv.Itoa(w.to), millis(l.config.tokenTTL),
			waits, wire.Released,
		},
	}
}

func (l fair) release(owner Owner, from, to int) request {
	return request{
		script: script.Fair.Release, keys: l.keys(false),
		args: []string{wire.Released, owner.String(), strconv.Itoa(from), strconv.Itoa(to)},
	}
}

func (l fair) renew(owner Owner, _ int, ttl time.Duration) request {
	return request{script: script.Fair.Renew, keys: []string{l.name}, args: []string{owner.String(), millis(ttl)}}
}

func (l fair) force(holders []string) request {
	return request{
		script: script.Fair.Force, keys: l.keys(false), args: append([]string{wire.Released}, holders...),
	}
}

func (l fair) inspect() request {
	return request{script: script.Fair.Inspect, keys: l.keys(l.config.fenced)}
}

func (l fair) leave(owner Owner) request {
	return request{
		script: script.Fair.Leave, keys: l.keys(false), args: []string{wire.Released, owner.String()},
	}
}

func (l fair) size() request {
	return request{script: script.Size, keys: l.inspect().keys}
}

func (l fair) aside() []string {
	return []string{wire.Queue(l.name), wire.Timeouts(l.name), wire.Waiting(l.name)}
}

func (l fair) channel(owner Owner) string { return wire.FairChannel(l.name, owner.String()) }
