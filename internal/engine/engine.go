package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/tasks"
	"github.com/holdfast-go/holdfast/internal/visible"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
	"github.com/holdfast-go/holdfast/internal/wakeup"
	"github.com/holdfast-go/holdfast/internal/watchdog"
)

// listenAfter is how long a hold lasts before its holder listens for a forced unlock, and says since when it holds:
// shorter holds would pay more for that than it can tell them.
const listenAfter = time.Second

// Outage is how many timeouts a waiter bears without Redis, once Redis has answered it, and for how many a call is
// repeated in the background.
const Outage = 10

// Config is what an [Engine] works with.
type Config struct {
	Driver driver.Driver
	// ID is the client's UUID, in front of the number of each of its owners.
	ID string
	// Lease is what holds with another lease are renewed with while something is nested in them.
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

// New returns an engine. It does no I/O and starts no goroutine.
func New(config Config) *Engine {
	e := &Engine{Config: config, phases: newPhases(), owners: owners{client: config.ID}, accounts: newAccounts()}
	e.Calls = call.New(call.Config{
		Driver: config.Driver, Tasks: &e.Tasks, Life: e.Life, Closing: e.Closing,
		Timeout: config.Timeout, Replicas: config.Replicas, AckTimeout: config.AckTimeout,
	})
	e.watchdog = watchdog.New(watchdog.Config[*side, group]{
		Group: groupOf, Weight: weightOf, Renew: e.renew, Lost: lost, LongHeld: longHeld, LongHeldAfter: listenAfter,
		Timeout: config.Timeout / 3, Margin: config.Margin,
	})
	e.hub = wakeup.New(config.Driver.Listen)
	e.mail = newMail(e.ID, e.Calls.Sharded, e.hub.Join)
	e.queues = waitqueue.New(func(channel string, q *queue) func() { return e.hub.Join(channel, q).Leave })
	return e
}

// Drain lets nothing new be held but what is nested, and ends every wait.
func (e *Engine) Drain() { e.drain() }

// Live are the names of what is held, one for each hold that is neither lost nor given back.
func (e *Engine) Live() (names []string) {
	e.accounts.each(func(a *account) {
		for range a.live() {
			names = append(names, a.name)
		}
	})
	slices.Sort(names)
	return names
}

// ErrKept says that Redis refuses to take something back. That ends with its lease.
var ErrKept = errors.New("Redis does not take everything back") //nolint:staticcheck // Redis is a name

// Close gives everything back, ends every call, stops all goroutines, and waits for that until ctx ends.
func (e *Engine) Close(ctx context.Context) error {
	e.drain()
	e.close()
	var all []*account
	e.accounts.each(func(a *account) { all = append(all, a) })
	evicted := slices.DeleteFunc(all, func(a *account) bool { return !a.evict() })
	e.Presence.Withdraw()
	err := e.Tasks.Wait(ctx)
	if why := leftBy(evicted); why != nil {
		err = why // it says more than that the time is over
	}
	e.die()
	stopped := make(chan struct{})
	go func() { // owned by this call; outlives it only if the time runs out
		defer close(stopped)
		e.watchdog.Stop()
		e.hub.Close()
	}()
	select {
	case <-stopped:
		return err
	case <-ctx.Done():
		return cmp.Or(err, ctx.Err())
	}
}

// MostNamed is how many locks the errors of Close and Shutdown name.
const MostNamed = 10

// leftBy returns the error for accounts with unreleased counts: the first account's reason, the locks, and the time until their
// leases have ended. It is nil if there are none.
func leftBy(accounts []*account) (first error) {
	var names []string
	var end mono.Time
	for _, a := range accounts {
		if until, why := a.owes(); why != nil {
			first = cmp.Or(first, why)
			names, end = append(names, a.name), max(end, until)
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("%w; %d left, of %s, whose leases end within %v",
		first, len(names), visible.Text(fmt.Sprintf("%q", names[:min(len(names), MostNamed)])), end.Sub(mono.Now()).Round(time.Millisecond))
}

// notReplicated is the error for a grant that too few replicas have.
func (e *Engine) notReplicated(name string, res call.Result) error {
	return lockerr.Problem(name, fmt.Sprintf("%d of %d acknowledged it in time", res.Acknowledged, e.Replicas), lockerr.NotReplicated)
}

// beyondMaxHold is the error for a lease that reaches beyond what MaxHold allows.
func (e *Engine) beyondMaxHold(name string) error {
	return lockerr.Problem(name, "the lease is longer than WithMaxHold allows, "+e.MaxHold.String(), lockerr.Invalid)
}

// account returns the account of a claim, and makes it if need be. It is nil if the owner belongs to another call, and nobody
// may use it. Each account that is returned is given back by unref.
func (e *Engine) account(l *Lock, c claim) *account {
	if c.account != nil {
		c.account.refs.Add(1)
		return c.account
	}
	a := &account{engine: e, name: l.Name, class: l.Class, owner: c.owner}
	a.undisclosed = c.fresh && (l.HandsOver || l.SharesHolds)
	a.refs.Store(1)
	a.addSide(&a.first, l)
	if c.fresh {
		a.turn.TryTake() // it is the call's from the beginning
	}
	return e.accounts.add(a, c.fresh)
}

// begin counts a call, or refuses it. It is paired with Tasks.End.
func (e *Engine) begin(ctx context.Context, op, name string) error {
	if err := TooLate(ctx, op, name, e.Errors); err != nil {
		return err
	}
	if e.Closing.Err() != nil || !e.Tasks.Begin() {
		return lockerr.Problem(name, "", lockerr.Closed)
	}
	return nil
}

// mustExist panics at a nil context, before it is used: a nil pointer would say nothing to the caller.
func mustExist(ctx context.Context) {
	if ctx == nil {
		panic("holdfast: the context is nil")
	}
}

// TooLate is the error of a call whose context has ended before anything was sent; nil if it has not.
func TooLate(ctx context.Context, op, name string, errs Errors) error {
	mustExist(ctx)
	switch {
	case ctx.Err() == nil:
		return nil
	case OwnBound(context.Cause(ctx)):
		return errs.Backend(op, name, false, call.ErrNoAnswer)
	default:
		return ContextError(ctx, name)
	}
}

// UntilClosing returns a context that also ends when the client closes.
func (e *Engine) UntilClosing(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.Closing, func() { cancel(lockerr.Closed) })
	return ctx, func() { stop(); cancel(nil) }
}

// errTimeIsUp is the cause of a context that WithTimeout has ended. A user has call.ErrNoAnswer in the place of it and of
// ErrWaitOver: a context that a user ends with that is still ended by the user.
var errTimeIsUp = fmt.Errorf("%w", call.ErrNoAnswer)

// ErrWaitOver is the cause of a context whose wait is over.
var ErrWaitOver = fmt.Errorf("%w: the wait is over", call.ErrNoAnswer)

// WithTimeout bounds ctx by d. [OwnBound] tells that end from the caller's.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errTimeIsUp)
}

// OwnBound reports whether an error is the end of a bound of ours.
func OwnBound(err error) bool {
	return err == errTimeIsUp || err == ErrWaitOver //nolint:errorlint // itself: what wraps it is a caller's
}

// EndedByCaller reports whether ctx has ended, and not by a bound of ours.
func EndedByCaller(ctx context.Context) bool {
	return ctx.Err() != nil && !OwnBound(context.Cause(ctx))
}

// noReply returns why Redis had not replied to the last request of a call when a bound ended the call, or nil if the request was
// too recent for that: see [call.Patience].
func (e *Engine) noReply(ctx context.Context, res *call.Result, first bool) error {
	return res.Unanswered(call.Patience(ctx, first, e.AckTimeout))
}

// ContextError is the error of a call whose own context ended. It matches ctx.Err() and the context's cause.
func ContextError(ctx context.Context, name string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return lockerr.Problem(name, "the caller gave up", cause)
	}
	return lockerr.Problem(name, "the caller gave up", ctx.Err(), cause)
}
