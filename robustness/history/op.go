// Package history records what clients of locks do in a trial, and checks it.
//
// A history is a list of operations. Each has the moments at which it was invoked and at
// which it returned, all on one clock, and what came of it. The checks in this package need
// these moments and nothing from Redis:
//
//   - [Overlaps] finds holds of one lock that were trusted at the same moment and must not be;
//   - [Tokens] finds fencing tokens that do not grow;
//   - [StaleWrites] finds writes that a store which compares tokens should have refused.
//
// Package linear checks a history against a model of each kind of lock.
//
// # Recording
//
// A [Log] belongs to one process. Each of its operations is one append under a mutex, so
// many goroutines write cheaply. A log that has a writer also writes a line of JSON when an
// operation begins, and another one when it ends, so that of a process that is killed
// everything is there up to that moment. [Read] joins the lines of several processes. No
// goroutine is started here.
package history

import (
	"fmt"
	"math"
	"time"
)

// Moment is a time in nanoseconds on the clock of the trial.
type Moment int64

// Never is after every moment: an operation that did not return has it as its end.
const Never Moment = math.MaxInt64

// String returns the moment as a time since the beginning of the clock.
func (m Moment) String() string {
	if m == Never {
		return "never"
	}
	return time.Duration(m).String()
}

// Kind is what an operation does.
type Kind string

// The kinds of operation.
const (
	Acquire Kind = "acquire" // take a lock, or N permits; Try says that it did not wait
	Release Kind = "release" // give the hold back; Until is the deadline that the hold had
	Detach  Kind = "detach"  // end the hold without a release, for another one to adopt; Until is the same
	Adopt   Kind = "adopt"   // take the detached hold From over
	Extend  Kind = "extend"
	// Ended is the moment at which the context of a hold ended, with the outcome Lost if it was
	// lost. It returns when it is invoked. Until is the deadline that the hold had.
	Ended Kind = "ended"
	// Crash is the moment at which a client dies: what it holds is not released. One that is started
	// in its place has another number.
	Crash Kind = "crash"
	// Close closes a client: what it holds is given back some time after. Contexts say when a hold is not
	// trusted any more.
	Close Kind = "close"
	// Force takes the lock from whoever holds it. From Invoke to Until holds may end.
	Force Kind = "force"
	// Unanswered is a request of which nobody knows what came: from Invoke to Until it may take the lock, though no
	// hold comes of it, or leave it as it was, though it was to be given back.
	Unanswered Kind = "unanswered"
	// Paused is a time in which the process did not run, from Invoke to Return.
	Paused Kind = "paused"
	// Write is sent to a store which compares tokens.
	Write Kind = "write"
	// SetCount, CountDown, Await and Count are a latch's. N is the count.
	SetCount  Kind = "set count"
	CountDown Kind = "count down"
	Await     Kind = "await"
	Count     Kind = "count"
)

// Outcome is what came of an operation.
type Outcome string

// The outcomes.
const (
	Open    Outcome = ""        // it has not returned
	OK      Outcome = "ok"      // it has had its effect
	Refused Outcome = "refused" // the lock was another's, or the store has refused the token
	Unknown Outcome = "unknown" // it may have had its effect, or may have it later
	Lost    Outcome = "lost"    // the hold was lost
)

// Op is one operation.
type Op struct {
	ID      int64   `json:"id"` // unique in its process, from 1
	Process int     `json:"process"`
	Client  int     `json:"client"`
	Kind    Kind    `json:"kind"`
	Lock    string  `json:"lock,omitempty"`
	Invoke  Moment  `json:"invoke"`
	Return  Moment  `json:"return"`
	Outcome Outcome `json:"outcome,omitempty"`

	// Hold is which hold it is about: the ID of the Acquire or Adopt that made it, in the same
	// process. Of an Acquire it is the hold that it is nested in, and 0 if it is in none.
	Hold   int64 `json:"hold,omitempty"`
	From   int64 `json:"from,omitempty"` // of Adopt: the hold that was detached, FromIn in that process
	FromIn int   `json:"fromIn,omitempty"`
	Shared bool  `json:"shared,omitempty"` // it may overlap with other shared ones
	Try    bool  `json:"try,omitempty"`
	N      int   `json:"n,omitempty"` // permits, or a latch's count
	Token  int64 `json:"token,omitempty"`
	// Until is: of Release, Detach and Ended, the hold's deadline; of Force, until when it may end holds; of
	// Unanswered, and of an Acquire or Adopt that failed, until when it may take the lock; of one that waited and was granted,
	// until when its place in line may be granted the lock once more.
	Until Moment `json:"until,omitempty"`
}

// Key identifies an operation in all processes.
type Key struct {
	Process int
	ID      int64
}

// Key is what identifies the operation.
func (o *Op) Key() Key { return Key{o.Process, o.ID} }

// About is the hold that the operation is about.
func (o *Op) About() Key { return Key{o.Process, o.Hold} }

// Adopted is the hold that an Adopt takes over.
func (o *Op) Adopted() Key { return Key{o.FromIn, o.From} }

// Grants reports whether the operation has made a hold.
func (o *Op) Grants() bool { return (o.Kind == Acquire || o.Kind == Adopt) && o.Outcome == OK }

// String is the operation for people.
func (o *Op) String() string {
	s := fmt.Sprintf("%s %d of client %d in process %d on %q: %v to %v, %s", o.Kind, o.ID, o.Client, o.Process, o.Lock, o.Invoke, o.Return, orOpen(o.Outcome))
	if o.Shared {
		s += ", shared"
	}
	if o.Hold != 0 {
		s += fmt.Sprintf(", hold %d", o.Hold)
	}
	if o.N != 0 {
		s += fmt.Sprintf(", n %d", o.N)
	}
	if o.Token != 0 {
		s += fmt.Sprintf(", token %d", o.Token)
	}
	return s
}

func orOpen(o Outcome) Outcome {
	if o == Open {
		return "open"
	}
	return o
}
