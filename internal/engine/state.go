package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/binarysem"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/ledger"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/tasks"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// This file has the types that point to one another: an engine has accounts, an account has two sides, a side has holds and perhaps a
// cohort, and each of them knows what it belongs to.

// Config is what an [Engine] works with.
type Config struct {
	Driver driver.Driver
	// ID is the client's UUID, in front of the number of each of its owners.
	ID string
	// Lease is the client's: a hold with a fixed lease is renewed with it while another hold is nested in it.
	Lease time.Duration
	// MaxHold bounds every run of holds; 0: it does not.
	MaxHold time.Duration
	// Margin is taken off every deadline.
	Margin time.Duration
	// Timeout bounds one call, repetitions included.
	Timeout time.Duration
	// So many replicas acknowledge each acquire, within AckTimeout; 0: none.
	Replicas   int
	AckTimeout time.Duration
	// HandsOver says that holds may pass on, or be shared, inside the process.
	HandsOver bool
	Errors    Errors
	Presence  Presence
	// Failed is told of failures in the background that no call returns. It must not block.
	Failed func(l *Lock, owner string, err error)
}

// Errors makes the errors that have a type of their own.
type Errors interface {
	// Locked is the refusal of a lock that an owner holds, for ttl unless it is renewed. Below 0 it does not expire; the owner may
	// be empty.
	Locked(name, owner string, ttl time.Duration) error
	// Lost is why a hold is lost. The cause may be nil.
	Lost(name string, why lockerr.Reason, cause error) error
	// Backend is a call that was refused or not answered.
	Backend(op, name string, mayHaveRun bool, why error) error
	// WithReason adds to the error of a call that its context ended what was known then: why is the last refusal, or a failure
	// of Redis since then. Either may be missing, or be another error.
	WithReason(err, why error) error
}

// Presence says in Redis who the client is. Its methods do not block.
type Presence interface {
	// WriteIfDue writes what is due.
	WriteIfDue(now mono.Time)
	// Holds says since when the holder, who has these fields, holds a lock. Ended says that it does not any more.
	Holds(holder any, fields []string, since mono.Time)
	Ended(holder any)
	// OutlastedUntil says that a hold stays in Redis until then, though the client is closed.
	OutlastedUntil(until mono.Time)
	// Withdraw deletes what was said, as the client closes.
	Withdraw()
}

// Engine acquires and holds the locks of one client. Use [New].
type Engine struct {
	Config

	// Calls sends scripts, and Tasks are what Close waits for.
	Calls *call.Caller
	Tasks tasks.Group

	watchdog *watchdog.Watchdog[*side, group]
	hub      *wakeup.Hub
	queues   *queues
	mail     mail

	phases
	owners
	retired  retirement
	accounts accounts
}

// phases are those in which a client ends.
type phases struct {
	// Draining ends when Drain is called: nothing new is held. Closing ends when Close begins: nothing new is started, and nobody
	// waits any longer. Life ends when Close has ended: nothing goes on after it.
	Draining, Closing, Life context.Context
	drain, close, die       context.CancelFunc
}

func newPhases() (p phases) {
	p.Draining, p.drain = context.WithCancel(context.Background())
	p.Closing, p.close = context.WithCancel(context.Background())
	p.Life, p.die = context.WithCancel(context.Background())
	return p
}

// The queues of the waiters of this process. A waiter with a Hold may be handed the lock, or join a cohort.
type (
	queues = waitqueue.Queues[Hold, cohort]
	queue  = waitqueue.Queue[Hold, cohort]
	waiter = waitqueue.Waiter[Hold, cohort]
)

// account is what this process knows of one owner at one lock, both sides of it. It comes into being with the owner's first
// call, or of an owner that an acquire has made with its first request, and goes when nobody needs it.
type account struct {
	accountKey

	engine *Engine

	// turn is the right to ask Redis for a change on behalf of this owner at this lock. It is kept until the outcome of the
	// change is known. So changes come one after another, and an old one cannot undo a newer one.
	turn binarysem.Sem

	refs atomic.Int32 // calls under way, counts of holds, goroutines

	mu sync.Mutex // guards what follows, and the sides
	// undisclosed says that nobody outside the library knows the owner.
	undisclosed bool
	ledger      ledger.Account[*Hold]
	sides       [2]*side
	first       side // what sides points to at first
	// fewer is closed when a count falls; nil if nobody waits for that.
	fewer chan struct{}
	queued
	debt
}

// accountKey is an owner at a lock.
type accountKey struct{ name, namespace, owner string }

// queued is what is known of the owner's acquires in the queue of this process.
type queued struct {
	waiter *waiter // that of the acquire that has the turn; nil if none waits in a queue
	gone   *gone   // the last acquire that has waited in a queue, and given up; nil if there was none
}

// debt is how it stands with what was to be released.
type debt struct {
	retries bool  // tryAgain is going to release what Redis has refused to take
	failure error // why the last release has failed; nil if it has not
}

// gone is an acquire that has given up: when, and what it was refused with last.
type gone struct {
	refusal error
	at      time.Time
}

// side is one of the counts of an account. Its fields are guarded by the account's mu.
type side struct {
	ledger.Side[*Hold]

	account *account
	lock    *Lock
	// entry is watched from the first hold of a run to the last. Each run has its own entry, so news of an older run can be
	// told from news of this one.
	entry      *entry
	firstEntry entry // what entry points to at first
	// inDoubt are attempts that were not answered, and may have their effect yet. What they may do, the ledger knows.
	inDoubt      []*call.Attempt
	subscription *wakeup.Subscription // where a long hold listens for a forced unlock
	failing      error                // how the last renewal failed; nil if it was acknowledged
	overslept    bool                 // the run's deadline passed because the host was suspended
	unconfirmed  bool                 // the run has begun with a message, and Redis has not been asked since
	cohort       *cohort              // in which the hold passes on, or has several; nil if it has not, so far
}

// entry is what the watchdog has of a run of holds.
type entry = watchdog.Entry[*side]

// cohort is a run of holds in this process that pass from one to the next, or that share what Redis has granted once.
type cohort struct {
	side  *side
	queue *queue        // that does not ask while the cohort lasts; nil if holds share
	since mono.Time     // when it was granted
	until mono.Time     // when nothing is handed over, and nobody joins, any more
	holds int           // that it has been handed over to
	after time.Duration // for how long the queue lets others try first
}

// Observer is told what happens to one hold by itself. It must not block: it runs under a mutex.
type Observer interface {
	// Renewed is told of each renewal; err is nil if it was acknowledged.
	Renewed(err error)
	// Ended is told, once, why the hold was lost, or that the client has given it back as it closed; after its context has
	// ended.
	Ended(why error)
}

// Hold is one hold of a lock. Its caller allocates it, and [Lock.Acquire] fills it.
type Hold struct {
	ledger.Hold[*Hold]

	// Observer is told what happens to the hold; nil: nobody is. It is set before the acquire.
	Observer Observer

	side   *side
	inside within // what its context is derived from, and that from what Lock was called with
	since  mono.Time
	token  int64
	// received says that the hold was handed over to it, or that it has joined others.
	received bool

	// Guarded by the account's mu, as is ledger.Hold.
	ended     *ending
	ctx       context.Context // nil: nobody has asked for it yet
	cancel    context.CancelCauseFunc
	whenEnded func() // called when it ends
}

// ending is how a hold has ended other than by loss.
type ending struct {
	sentence string
	err      error
}
