package holdfast

import (
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// FairMutex is a [Mutex] whose waiters come first, first served, over all
// processes. Get one from [Client.NewFairMutex]. All methods are safe for
// concurrent use.
//
// Lock takes the last place in a line that stands in Redis, and keeps it until it
// is let in or returns; Inspect shows its first thousand places. TryLock never
// takes a place, and is refused while others stand in line, though the lock be
// free: its [LockedError] then has neither a Holder nor a TTL. A nested Lock does
// not wait, and so takes no place either.
//
// A waiter asks again every three seconds, which is also how its place is kept:
// one that has not been heard of for ten seconds, because its process was killed
// or cut off, say, is out of the line, and the next one is let in. If it does come
// back, it takes the last place. Time in which Redis itself did not answer anybody
// does not count, up to two minutes; but whoever asks for the first time right
// after it may be let in before those who wait. A request that is lost is repeated
// after a third of the client's timeout, so a [WithTimeout] beyond 20 s can cost a
// place.
//
// In Redis it is the hash of a Mutex, and beside it the line: a list at
// redisson_lock_queue:{name}, and the times until which Redisson believes in each
// waiter at redisson_lock_timeout:{name}; those of holdfast's own waiters stand in
// holdfast_lock_waiting:{name} in addition. Whoever is next is told on a channel of
// its own, redisson_lock__channel:{name}:owner. Redisson: RFairLock, with
// [NonReentrant] the lock of that name. Waiters of both stand in one line. A plain
// Mutex of the same name respects the holder but not the line, and should not be
// used beside it.
type FairMutex struct {
	lock
}

// NewFairMutex returns the fair lock of the given name. It does no I/O. What names
// there are, [Client.NewMutex] says. The options are [NonReentrant], [Fenced] and
// [TokenTTL]; [Polling] makes every call return [ErrInvalidOption]. Redisson:
// getFairLock.
func (c *Client) NewFairMutex(name string, options ...MutexOption) *FairMutex {
	config := mutexOptions(options)
	config.without(config.polling, "Polling", "whoever is next in line is told")
	config.without(config.writersFirst, "WritersFirst", "a mutex has no readers")
	return &FairMutex{lock{newKind(c, name, "fair", fair{hash{name: name, config: config}}, config)}}
}

// fair is the dialect of the fair lock: the hash of the plain lock, and a line.
type fair struct {
	hash
}

// keys are those that all its scripts have, in their order.
func (l fair) keys() []string {
	return []string{l.name, wire.FairQueue(l.name), wire.FairTimeouts(l.name), wire.FairHeartbeats(l.name)}
}

// with is a request to a script of the fair lock. The channels of its waiters all
// begin with that of the lock.
func (l fair) with(s *driver.Script, keys []string, args ...string) request {
	return request{script: s, keys: keys, channel: wire.LockChannel(l.name), args: args}
}

func (l fair) acquire(w wish) request {
	keys := l.keys()
	if w.token {
		keys = append(keys, wire.Token(l.name))
	}
	return l.with(script.Fair.Acquire, keys,
		millis(w.lease), w.owner.String(), strconv.Itoa(w.from), strconv.Itoa(w.to), millis(l.config.tokenTTL),
		flag(w.waiting), wire.Released)
}

func (l fair) release(owner Owner, from, to int) request {
	return l.with(script.Fair.Release, l.keys(), wire.Released, owner.String(), strconv.Itoa(from), strconv.Itoa(to))
}

func (l fair) adopt(w wish, other Owner) request {
	ask := l.hash.adopt(w, other)
	ask.channel = l.channel(other)
	return ask
}

func (l fair) force(holders []string) request {
	return l.with(script.Fair.Force, l.keys(), append([]string{wire.Released}, holders...)...)
}

func (l fair) inspect() request {
	keys := l.keys()
	if l.config.fenced {
		keys = append(keys, wire.Token(l.name))
	}
	return l.with(script.Fair.Inspect, keys)
}

func (l fair) leave(owner Owner) request {
	return l.with(script.Fair.Leave, l.keys(), wire.Released, owner.String())
}

// channel is the owner's own: only the next in line is told. So each waiter has a
// line of its own in this process, and the one in Redis is the only one.
func (l fair) channel(owner Owner) string { return wire.WaiterChannel(l.name, owner.String()) }

func (l fair) size() request { return request{script: script.Size, keys: l.inspect().keys} }

func (l fair) aside() []string {
	return []string{wire.FairQueue(l.name), wire.FairTimeouts(l.name), wire.FairHeartbeats(l.name)}
}
