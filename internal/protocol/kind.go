package protocol

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Kind holds all that is known of a kind of lock besides its requests and replies. See [Kinds].
type Kind struct {
	// Name is the kind's name, for users. Waiters for a kind and a name share a local queue.
	Name string
	// Namespace tells apart the locks of one name: kinds that share it are one lock, and an owner has one account there.
	Namespace string
	// Mode is the side of a lock that has two, [ModeRead] or [ModeWrite]. An owner has a count for each, and must not queue for one of
	// them behind waiters that wait for it to leave the other.
	Mode string
	// Side is the index of the owner's count of which this is the side.
	Side int
	// Number is set if the lock's key is a number, of permits or of a latch; others are hashes of owners. Number objects can expire and
	// be deleted.
	Number bool
	// Scripts are the scripts of a kind whose holds have owners, and Others all that a kind sends besides.
	Scripts Scripts
	Others  []*driver.Script
	// Keys return the keys beside the lock's own, and Channels the channels: first the one of the release message. In both, * stands
	// for any owner. The waitlist has its own.
	Keys, Channels []func(name string) string
	// Spared are the commands that the scripts call and the kind does without, because they grant the lock to a waiter, or only one of
	// the variants comes by.
	Spared []string
	// Variants are what the options of the kind make of it.
	Variants []Variant

	// Shared is set if several owners may hold the lock at once: after a grant, the next waiter may well get it, too.
	Shared bool
	// ReadOnly is set if an acquire changes nothing in Redis.
	ReadOnly bool
	// AllowsHandoff is set if a hold may move within the process.
	AllowsHandoff bool
	// SharesHolds is set if several holds of a process may share one owner and one count.
	SharesHolds bool
	// Waitlist is set if waiters have entries in a waitlist in Redis, and AlwaysListed if they have them whether or not they receive
	// grant messages.
	Waitlist, AlwaysListed bool
	// Registers is set if Redis keeps something for a refused waiter even if its request has no ID: an entry, or a reservation. So a
	// waiter that gives up leaves.
	Registers bool
	// RecheckEvery is the longest time between two checks of a hold, renewed or not; 0: there are none.
	RecheckEvery time.Duration
}

// The modes of the holders of a read-write lock.
const (
	ModeRead  = "read"
	ModeWrite = "write"
)

// Variant is a kind with the options that change what its users need.
type Variant struct {
	*Kind

	// Name is the name in docs/acl.md.
	Name                                        string
	NonReentrant, Fenced, Polling, WritersFirst bool
	// Needs are those of the kind's Spared commands that the variant does not do without.
	Needs []string
}

// Listed reports whether waiters have entries in the waitlist if they may, and wait without them if not.
func (v Variant) Listed() bool { return v.Waitlist && !v.AlwaysListed && !v.Polling }

// Kinds are all kinds, in the order of docs/acl.md. It is the only list: what a table elsewhere has for each kind is found by the row.
var Kinds = []*Kind{MutexKind, FairKind, ReadKind, WriteKind, PermitsKind, SemaphoreKind, LatchKind}

// The kinds.
//
//nolint:goconst // a kind, its namespace and a variant may have one name
var (
	MutexKind = &Kind{
		Name: "mutex", Namespace: "mutex", Scripts: MutexScripts, Channels: names(LockChannel),
		AllowsHandoff: true, Waitlist: true,
		Variants: []Variant{
			{Name: "mutex"}, {Name: "non-reentrant", NonReentrant: true}, {Name: "fenced", Fenced: true}, {Name: "polling", Polling: true},
		},
	}
	FairKind = &Kind{
		Name: "fair", Namespace: "fair", Scripts: FairScripts,
		Keys: names(FairQueueKey, FairTimeoutsKey, FairHeartbeatsKey), Channels: names(ofAnyOwner(WaiterChannel)),
		Waitlist: true, AlwaysListed: true, Registers: true,
		Spared:   []string{"ZCOUNT"}, // without it nobody is granted the lock
		Variants: []Variant{{Name: "fair"}, {Name: "fair, fenced", Fenced: true}},
	}
	ReadKind = &Kind{
		Name: "read", Namespace: "rw", Mode: ModeRead, Scripts: RWScripts, Keys: names(readHoldKeys), Channels: names(RWChannel),
		Shared: true, SharesHolds: true, Waitlist: true,
		// Redisson renewals of another reader shorten the lock to Redisson's own lease, 30 s by default, and those of its version 3 also the
		// keys of this hold. A check raises them again long before that has passed.
		RecheckEvery: 5 * time.Second,
		Variants:     []Variant{{Name: "reader"}},
	}
	WriteKind = &Kind{
		Name: "write", Namespace: "rw", Mode: ModeWrite, Side: 1, Scripts: RWScripts, Keys: ReadKind.Keys, Channels: ReadKind.Channels,
		Waitlist: true,
		Spared:   []string{"SET"}, // only a reader has keys of its own
		Variants: []Variant{
			{Name: "writer"}, {Name: "writer, writers first", WritersFirst: true}, {Name: "writer, fenced", Fenced: true},
		},
	}
	PermitsKind = &Kind{
		Name: "permits", Namespace: "permits", Number: true,
		Others: []*driver.Script{
			permitsScripts.acquire, permitsScripts.release, permitsScripts.leave, permitsScripts.renew, permitsScripts.inspect,
			permitsScripts.lease, permitsScripts.force, permitsScripts.set, permitsScripts.add,
		},
		Keys: names(PermitsKey, CallsKey), Channels: names(SemaphoreChannel, PermitsChannel),
		Shared: true, Waitlist: true,
		Spared:   []string{"HDEL"}, // only of a hold with another one nested in it
		Variants: []Variant{{Name: "permit semaphore"}},
	}
	SemaphoreKind = &Kind{
		Name: "semaphore", Namespace: "semaphore", Number: true,
		Others: []*driver.Script{
			semaphoreScripts.acquire, semaphoreScripts.undo, semaphoreScripts.leave, semaphoreScripts.add, semaphoreScripts.drain,
			semaphoreScripts.set, inspect,
		},
		Keys: names(ReservationKey, CallsKey), Channels: names(SemaphoreChannel),
		Shared: true, Registers: true,
		Variants: []Variant{{Name: "unleased semaphore"}},
	}
	LatchKind = &Kind{
		Name: "latch", Namespace: "latch", Number: true, Others: []*driver.Script{latchScripts.await, latchScripts.down, latchScripts.set, inspect},
		Keys: names(CallsKey, LatchZeroKey), Channels: names(LatchChannel),
		Shared: true, ReadOnly: true,
		Variants: []Variant{{Name: "latch"}},
	}
)

// Variants are those of all kinds.
func Variants() (all []Variant) {
	for _, k := range Kinds {
		for _, v := range k.Variants {
			v.Kind = k
			all = append(all, v)
		}
	}
	return all
}

// names returns its arguments, the functions that spell keys or channels.
func names(of ...func(name string) string) []func(name string) string { return of }

// ofAnyOwner spells the keys, or channels, of all owners as a pattern.
func ofAnyOwner(of func(name, owner string) string) func(name string) string {
	return func(name string) string { return of(name, "*") }
}

// readHoldKeys is the pattern of the keys of read holds.
func readHoldKeys(name string) string { return ReadPrefix(name) + "*" + readHoldInfix + "*" }
