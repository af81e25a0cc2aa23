// Package program is what goroutines do with locks in a test of faults: they acquire, nest, extend, write, detach,
// adopt, force and release, as a seed says, and note all of it in a history. The simulation and the trials on
// real servers run the same programs; each has a [World] of its own.
//
// # State
//
// A [Run] has none but what a world gives it, and whether it is to stop. A [Hold] belongs to the actor that has
// acquired it, until it is detached; then to whoever takes it from the world.
//
// # Goroutines
//
// [Run.Act] is run by a goroutine of its caller's, and returns after [Run.Stop] when what it has begun is over: when its acquire has returned
// and it has given back what it has. Goroutines that it starts itself (a burst, releases side by side) have ended
// when it returns. A context that ends is noted by a goroutine of [context.AfterFunc], which nobody waits for.
//
// # When calls fail
//
// The outcome is noted as what is known of it, and the actor goes on: an acquire that failed for any reason made no hold; a release that failed is not
// repeated, since the library does that. What must never happen is told to [World.Failf].
package program

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/robustness/history"
)

// Class says what is promised under some faults.
type Class byte

// The classes.
const (
	ClassA Class = 'a' // two holds never overlap
	ClassB Class = 'b' // they may; a stale token is never accepted
)

// Run is the program of one seed for locks of one kind. What stands first must be set.
type Run struct {
	Seed    uint64
	Kind    *Kind
	Locks   []string
	Lease   time.Duration // that of the clients
	Timeout time.Duration
	Fixed   time.Duration   // the shortest fixed lease; 0: 50 ms
	Force   bool            // locks are taken by force, too
	Prompt  bool            // a release that takes longer than Timeout fails: nothing else takes time
	Hurry   <-chan struct{} // when it is closed, pauses end at once; nil: never
	Log     *history.Log
	World   World

	stopping atomic.Bool
}

// standsOn is for how long what an acquire that has failed was given may stand before and after it has returned,
// if each call was answered at once. Those that were not are listed by themselves, as [history.Unanswered].
func (r *Run) standsOn() time.Duration {
	if r.Prompt {
		return 100 * time.Millisecond
	}
	return 500 * time.Millisecond
}

// leaves is for how long the place in line of one who was granted may stand, if each call was answered at once: a release
// inside a process can pass the lock on to it, and its place is given back only then.
func (r *Run) leaves() time.Duration { return r.standsOn() / 10 }

// Stop has actors end what they have begun, and return.
func (r *Run) Stop() { r.stopping.Store(true) }

// makesWay is the longest time for which others make way for a waiter that is gone.
const makesWay = 4500 * time.Millisecond

// Gone is after which time an acquire that was not answered has no effect any more.
func Gone(lease, timeout time.Duration) time.Duration { return 2*timeout + lease + 2*time.Second }

// Hinders is for how long a call about one of some locks that was not answered may be why others are refused: as long as what it
// took has an effect, and so much longer as a place stands for which others make way.
func Hinders(call driver.Call, locks []string, lease, timeout time.Duration) time.Duration {
	inFront := func(arg string) bool { return strings.HasSuffix(arg, " 0+") } // see ARGV[9] in protocol/lua/acquire.lua
	if slices.Contains(call.Keys, protocol.ReservationKey(About(call, locks))) || slices.ContainsFunc(call.Args, inFront) {
		return Gone(lease, timeout) + makesWay
	}
	return Gone(lease, timeout)
}

// Takes reports whether a call may take a lock.
func Takes(call driver.Call) bool { return does(call, "acquire", "adopt") }

// GivesBack reports whether a call may give back a lock, or a place in its line.
func GivesBack(call driver.Call) bool { return does(call, "release", "retain", "leave", "undo") }

// About returns the name of the lock that a call is about, which is one of some; if it is none of them, the call's first key.
func About(call driver.Call, locks []string) string {
	for _, name := range locks {
		if call.Keys[0] == protocol.ReservationKey(name) { // a waiter's place
			return name
		}
	}
	return call.Keys[0]
}

func does(call driver.Call, what ...string) bool {
	return slices.ContainsFunc(what, func(name string) bool { return strings.HasSuffix(call.Script.Name(), name) })
}

// Client is a client that actors use.
type Client interface {
	Locks() *holdfast.Client
	Number() int
	Usable() bool   // neither dead nor closed
	Dead() bool     // as a process that was killed
	AddHolds(n int) // counts holds, and acquires under way
}

// World is what actors live in. All of it may be called by many goroutines.
type World interface {
	// Client returns the client that an actor is to use now.
	Client(actor int) Client
	// Leave is told of a hold that a client has detached; if it can be found, anybody may Take it, and adopt it.
	Leave(c Client, d Detached, findable bool)
	Take(run *Run) (d Detached, ok bool)
	// Write sends a token to a store which compares tokens.
	Write(lock string, token int64) history.Outcome
	// NoteTrusted is told of a hold that is trusted at this moment.
	NoteTrusted(h *Hold)
	// NoteHandedOut is told that a client has handed out so much more of a lock, or less.
	NoteHandedOut(c Client, lock string, n int)
	// NoteLost is told why a hold has ended, or could not be given back; nil is no loss.
	NoteLost(hold int64, why error)
	// Moment is a time on the clock of the history; the zero time is history.Never.
	Moment(t time.Time) history.Moment
	Tracef(format string, args ...any)
	Failf(format string, args ...any)
}

// Detached is a hold that another client may adopt.
type Detached struct {
	Lock    string
	Shared  bool
	Owner   holdfast.Owner
	Process int   // where the hold was
	Hold    int64 // its number there
}
