package protocol

import (
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/script"
)

// MaxLeaseMillis is the longest lease that the scripts take: twelve digits of
// milliseconds, some thirty years.
const MaxLeaseMillis = 999_999_999_999

// MaxLease is the same as a duration.
const MaxLease = MaxLeaseMillis * time.Millisecond

// Waitable builds the requests of what can be waited for. Mutex, Fair, Read, Write,
// PermitSet, Taking and Latch are.
type Waitable interface {
	// Acquire asks that an owner, who holds the lock so many times, holds it
	// another number of times.
	Acquire(a Acquire) script.Request
	// Release asks that owner, who holds the lock from times at most, holds it to
	// times. The zero request says that there is nothing to give back.
	Release(owner string, from, to int) script.Request
	// Leave asks that owner does not wait any more. The zero request says that
	// waiting leaves nothing in Redis.
	Leave(owner string) script.Request
	// Channel is where owner hears of releases; empty if it hears nothing.
	Channel(owner string) string
}

// Lock is what can be held: it has owners, and a lease.
type Lock interface {
	Waitable
	// Renew asks that the lock lives for at least ttl if owner holds it, and how
	// often owner holds it; count is how often that is as far as is known. A ttl of
	// 0 only asks.
	Renew(owner string, count int, ttl time.Duration) script.Request
	// RenewScript is the script of Renew. Requests of one script can be sent as one.
	RenewScript() *driver.Script
	// ReadRenewal reads what the reply to renewals says about the i-th.
	ReadRenewal(r script.Reply, i int) (Renewal, error)
	// Lifetime reads from the reply to a granted acquire for how long what is held lives at most: mostly [MaxLease].
	Lifetime(r script.Reply) time.Duration
	// Weight is how many of the places of a batch of renewals one takes.
	Weight(places int) int
	// Adopt asks that a.Owner holds the lock once, in the place of another one. The
	// zero request says that holds of this kind have no owner to replace.
	Adopt(a Acquire, other string) script.Request
	// Retain asks that owner, who holds the lock from times at most, holds it no more, and
	// nobody for rest: another owner, that nobody is, stands in its place. The zero
	// request says that this kind cannot.
	Retain(owner string, from int, nobody string, rest time.Duration) script.Request
	// Force asks that none of these holds the lock.
	Force(holders []string) script.Request
	// Inspect asks how things stand; see [ReadState].
	Inspect() script.Request
}

// Acquire is what an acquire asks for.
type Acquire struct {
	Owner string
	// From and To are how often the owner holds the lock before and after.
	From, To int
	Lease    time.Duration
	// Number is random, and says to stand in line if it is refused: see lua/waitlist.lua.
	Number string
	// Unlisted says that the caller does not wait, or waits without an entry on the waitlist: so it may use a yield window.
	Unlisted bool
	// Since is when it was refused first, by the server's clock, in µs; 0: not yet.
	// Only a latch says so.
	Since   int64
	Token   bool // a new fencing token is wanted
	Writes  bool // only if the owner writes, who wants to read
	Waiting bool // if it is refused, it is going to ask again
	// Scattered says that those who listen may do so at any node of a cluster. Only with a Number.
	Scattered bool
	// InFront gives a new entry a place in front of all others. Only with a Number.
	InFront bool
}

// LongestGrant is how long a grant lasts at most that was not asked for in that moment.
const LongestGrant = 3 * time.Second

// PlaceLives is how long a place in line stands in Redis, if nobody drops it before: ENTRIES_LIVE in lua/waitlist.lua.
const PlaceLives = 2 * time.Minute

// Ahead is how much less the score of an entry with a place in front is than the time of its arrival, µs: AHEAD in lua/waitlist.lua.
const Ahead = 1 << 52

// Grant is how long one lasts for who stands in line.
func (a Acquire) Grant() time.Duration { return min(a.Lease, LongestGrant) }

// seated returns the arguments of lua/acquire.lua for a seat. The last ones, for a token and for an entry, are left out if they would be
// empty.
func (a Acquire) seated(seat string, tokenTTL time.Duration) []string {
	args := []string{millis(a.Lease), seat, strconv.Itoa(a.From), strconv.Itoa(a.To)}
	entry := a.entry()
	switch {
	case a.Token:
		args = append(args, millis(tokenTTL))
	case entry != "":
		args = append(args, "")
	}
	if entry != "" {
		args = append(args, entry)
	}
	return args
}

// adopting returns the arguments of lua/adopt.lua for a seat in the place of another one.
func (a Acquire) adopting(seat, old string, tokenTTL time.Duration) []string {
	ttl := ""
	if a.Token {
		ttl = millis(tokenTTL)
	}
	return []string{millis(a.Lease), seat, old, "1", ttl, Released}
}

// entry returns the argument that adds an entry to the waitlist if the request is refused, or says that the waiter has none; otherwise it
// is empty.
func (a Acquire) entry() string {
	switch {
	case a.Number != "":
		place := ""
		if a.InFront {
			place = "+"
		}
		return a.Number + " " + millis(a.Grant()) + " " + flag(a.Scattered) + place
	case a.Unlisted:
		return "unlisted"
	}
	return ""
}

// Renewal is what a renewal has found.
type Renewal struct {
	Count int64 // how often the owner holds the lock
	// Lives is set if Left and Gone are known: for how long the owner still holds
	// it, and when nothing will be left of that in Redis. Below 0: never ends.
	Lives      bool
	Left, Gone time.Duration
	// Ends is set if what is held ends at End at the latest, whatever is asked for.
	Ends    bool
	End     time.Duration
	Missing []string // permits that are not held any more, though others are
}

// countOnly reads a renewal that says no more than how often the owner holds it.
type countOnly struct{}

// ReadRenewal is that of most kinds.
func (countOnly) ReadRenewal(r script.Reply, i int) (Renewal, error) {
	count, err := r.Int(i)
	return Renewal{Count: count}, err
}

// Lifetime is that of most kinds.
func (countOnly) Lifetime(script.Reply) time.Duration { return MaxLease }

// Weight is that of most kinds.
func (countOnly) Weight(int) int { return 1 }

// flag writes a condition as scripts read it.
func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// millis writes a duration as whole milliseconds.
func millis(d time.Duration) string {
	if seconds := d / time.Second; d%time.Second == 0 && 0 < seconds && int(seconds) < len(wholeSeconds) {
		return wholeSeconds[seconds]
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// wholeSeconds are the texts of whole seconds up to a minute, so that the usual lease costs no allocation.
var wholeSeconds = func() (texts [61]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(1000 * i)
	}
	return texts
}()
