package holdfast

import (
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// kind is what sets one kind of lock apart from the others. Everything else is
// the same for all.
type kind struct {
	client  *Client
	name    string
	invalid error // why it cannot be used, or nil
	// class is which counts in Redis are meant: kinds of one class are the same
	// lock, and an owner has one tenure at it.
	class string
	// shared says that several owners may hold it at once: when one has been let
	// in, the next in line may well be, too.
	shared bool
	// twoSided says that the owner may hold the lock in another way already. Then
	// it must not stand in line behind those who wait for it to leave.
	twoSided bool
	// line is which line of this process waiters stand in: the class, unless each
	// acquire has a class of its own.
	line string
	// news is where holders hear that others have changed what they hold; empty:
	// where waiters hear of releases.
	news string
	// upkeep is after which time a hold is seen to again that is not renewed, or
	// less often; 0: never.
	upkeep time.Duration
	config mutexConfig
	// asks says that to acquire it changes nothing in Redis.
	asks bool
	// refusal is the error for an answer that says no; nil makes a [*LockedError].
	refusal func(script.Answer) error
	// found reads element i of what renewals have found, where that is more than
	// how often the owner holds the lock.
	found func(answer script.Answer, i int) (finding, error)
	dialect
}

// finding is what a renewal has found.
type finding struct {
	count int64 // how often the owner holds the lock
	// left is for how long it does, and gone when nothing will be left of that in
	// Redis; below 0: never.
	left, gone time.Duration
}

// dialect is how the scripts of a kind are asked.
type dialect interface {
	// acquire asks that an owner, who holds the lock so many times, holds it
	// another number of times. Use kind.take, which has replicas acknowledge it.
	acquire(w wish) request
	// release asks that owner, who holds the lock from times at most, holds it to
	// times.
	release(owner Owner, from, to int) request
	// renew asks that the lock lives for at least ttl if owner holds it, and how
	// often owner holds it; count is how often that is as far as we know. A ttl of
	// 0 only asks. Renewals of one script can be sent as one.
	renew(owner Owner, count int, ttl time.Duration) request
	// adopt asks that owner holds the lock once, in the place of another one. The
	// zero request says that holds of this kind have no owner to replace.
	adopt(w wish, other Owner) request
	// force asks that none of these, in the wire's text, holds the lock.
	force(holders []string) request
	// inspect asks how things stand.
	inspect() request
	// leave asks that owner does not wait any more. The zero request says that
	// waiting leaves nothing in Redis.
	leave(owner Owner) request
	// size asks how many bytes the lock's keys take.
	size() request
	// aside are the keys beside the lock itself that may be deleted at any time:
	// those who need them write them again.
	aside() []string
	// channel is where owner hears of releases; empty if it hears nothing.
	channel(owner Owner) string
}

// wish is what an acquire asks for.
type wish struct {
	change
	owner   Owner
	lease   time.Duration
	token   bool // a new fencing token is wanted
	waiting bool // if it is refused, it is going to ask again
	// since is when it was refused first, by the server's clock, in µs; 0: not yet.
	// Only a latch says so.
	since int64
}

// request is a script call, without what every call begins with.
type request struct {
	script  *driver.Script
	keys    []string
	channel string // where a change is announced; empty: nowhere
	args    []string
	acks    bool // replicas are to acknowledge it, if the client asks for that
}

// take is acquire, acknowledged by replicas if the client asks for that.
func (k *kind) take(w wish) request {
	r := k.acquire(w)
	r.acks = !k.asks
	return r
}

// newKind returns a kind with what all have in common. Its name has been
// checked, and its options have.
func newKind(c *Client, name, class string, d dialect, config mutexConfig) *kind {
	k := &kind{client: c, name: name, class: class, line: class, config: config, dialect: d, invalid: config.invalid}
	if err := wire.CheckName(name); err != nil {
		k.invalid = fmt.Errorf("holdfast: %w: %.80q: %w", ErrInvalidName, name, err)
	}
	return k
}

// flag writes a condition as scripts read it.
func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// millis writes a duration as whole milliseconds.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
