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
// waiter's last acquire request, as recorded at [AsksKey]; the result is empty if it has no such time.
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

// Fair is the fair lock: the hash of the plain one, and the line of those who wait.
// Its holds are renewed as those of the plain lock are.
type Fair struct{ *Mutex }

// request is one about the line. The channels of its waiters all begin with that
// of the lock.
func (l Fair) request(s *driver.Script, token bool, args ...string) script.Request {
	keys := []string{l.name[0], FairQueueKey(l.name[0]), FairTimeoutsKey(l.name[0]), FairHeartbeatsKey(l.name[0])}
	if token {
		keys = append(keys, TokenKey(l.name[0]))
	}
	return script.Request{Script: s, Keys: keys, Channel: l.channel, Args: args}
}

// Acquire asks for the lock, and for a place in the line.
func (l Fair) Acquire(a Acquire) script.Request {
	request := l.request(FairScripts.Acquire, a.Token, a.args(l.TokenTTL, flag(a.Waiting), Released)...)
	request.Acknowledged = true
	return request
}

// Release gives it back: to the next in line, or it tells that one.
func (l Fair) Release(owner string, from, to int) script.Request {
	return l.request(FairScripts.Release, false, Released, owner, strconv.Itoa(from), strconv.Itoa(to))
}

// Adopt replaces its owner, who hears of that where it hears that it is next.
func (l Fair) Adopt(a Acquire, other string) script.Request {
	request := l.Mutex.Adopt(a, other)
	request.Channel = l.Channel(other)
	return request
}

// Retain leaves it to nobody for a while, and tells the next in line.
func (l Fair) Retain(owner string, from int, nobody string, rest time.Duration) script.Request {
	return l.request(FairScripts.Retain, false, Released, owner, strconv.Itoa(from), nobody, millis(rest))
}

// Force takes it away.
func (l Fair) Force(holders []string) script.Request {
	return l.request(FairScripts.Force, false, append([]string{Released}, holders...)...)
}

// Inspect asks how it stands, and who waits.
func (l Fair) Inspect() script.Request { return l.request(FairScripts.Inspect, l.Fenced) }

// Leave takes the owner out of the line, and gives back what it was granted meanwhile.
func (l Fair) Leave(owner string) script.Request {
	return l.request(FairScripts.Leave, false, Released, owner)
}

// Channel is the owner's own, and only the next in line is told there, if it does not hear of grants. So
// each waiter has a local queue of its own; the order is the one in Redis.
func (l Fair) Channel(owner string) string { return WaiterChannel(l.name[0], owner) }
