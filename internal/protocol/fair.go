package protocol

import (
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// FairQueueKey is the key of a fair lock's line: a list of owners, the next first.
func FairQueueKey(name string) string { return Prefixed(queuePrefix, name) }

// FairTimeoutsKey is the key of the times until which each of a fair lock's waiters
// is believed to live: a sorted set, scores in ms since the epoch.
func FairTimeoutsKey(name string) string { return Prefixed(timeoutsPrefix, name) }

// FairHeartbeatsKey is the key of when each of holdfast's own waiters was last heard
// of. Redisson has no such key.
func FairHeartbeatsKey(name string) string { return Prefixed(heartbeatsPrefix, name) }

// sinceMark separates the number of an acquire request from the time at which its waiter joined the waitlist of a fair lock.
const sinceMark = "_"

// FairSince returns the time at which a waiter joined the waitlist of a fair lock, in ms of the server's clock, as text. ask is the
// waiter's last acquire request, as recorded at [RequestsKey]; the result is empty if it has no such time.
func FairSince(ask string) string {
	number, _, _ := strings.Cut(ask, " ")
	_, since, _ := strings.Cut(number, sinceMark)
	return since
}

// WaiterChannel is where one waiter of a fair lock is told that it is next.
func WaiterChannel(name, owner string) string { return LockChannel(name) + ":" + owner }

// FairScripts are those of the fair lock, whose holds are renewed and adopted as
// those of the plain lock are.
var FairScripts = Scripts{
	Acquire: load("fair", "acquire"),
	Release: load("fair", "release"),
	Renew:   MutexScripts.Renew,
	Adopt:   MutexScripts.Adopt,
	Retain:  load("fair", "retain"),
	Force:   load("fair", "force"),
	Inspect: load("fair", "inspect"),
	Leave:   load("fair", "leave"),
}

// Fair is the fair lock: the hash of the plain one, and a queue of its waiters. It is renewed and adopted as that.
type Fair struct{ *Mutex }

// keys are those of the lock, and of its queue.
func (l Fair) keys(token bool) []string {
	name := l.name[0]
	return append(l.Mutex.keys(token), FairQueueKey(name), FairTimeoutsKey(name), FairHeartbeatsKey(name))
}

// Acquire asks for the lock, and for an entry in the queue.
func (l Fair) Acquire(a Acquire) script.Request {
	args := a.seated(a.Owner, l.TokenTTL)
	if a.Waiting && a.From == 0 {
		for len(args) < 6 {
			args = append(args, "")
		}
		args = append(args, "1")
	}
	return script.Request{Script: FairScripts.Acquire, Keys: l.keys(a.Token), Acknowledged: true, Args: args}
}

// Release gives it back: to the next waiter, or it notifies that one.
func (l Fair) Release(owner string, from, to int) script.Request {
	return l.request(FairScripts.Release, owner, strconv.Itoa(from), strconv.Itoa(to))
}

// request is one that publishes on no channel but those of waiters, which the script knows.
func (l Fair) request(s *driver.Script, args ...string) script.Request {
	return script.Request{Script: s, Keys: l.keys(false), Args: append([]string{Released}, args...)}
}

// Adopt replaces its owner, whose channel is the waiter's.
func (l Fair) Adopt(a Acquire, other string) script.Request {
	request := l.Mutex.Adopt(a, other)
	request.Channel = l.Channel(other)
	return request
}

// Retain leaves it to nobody for a while, and notifies the next waiter.
func (l Fair) Retain(owner string, from int, nobody string, rest time.Duration) script.Request {
	return l.request(FairScripts.Retain, owner, strconv.Itoa(from), nobody, millis(rest))
}

// Force takes it away from its holder, of which there is one at most.
func (l Fair) Force(holders []string) script.Request {
	request := l.request(FairScripts.Force, holders...)
	request.Channel = l.Channel(holders[0])
	return request
}

// Inspect asks how it stands, and who waits.
func (l Fair) Inspect() script.Request {
	request := l.Mutex.Inspect()
	request.Script, request.Keys = FairScripts.Inspect, l.keys(l.Fenced)
	return request
}

// Leave takes the owner out of the queue, and gives back what it was granted meanwhile.
func (l Fair) Leave(owner string) script.Request { return l.request(FairScripts.Leave, owner) }

// Channel is the owner's own, and only the next in line is told there, if it does not hear of grants. So
// each waiter has a local queue of its own; the order is the one in Redis.
func (l Fair) Channel(owner string) string { return WaiterChannel(l.name[0], owner) }
