package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/lockerr"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// Traits are a kind of lock, and what the options of a lock, or a call, change of it.
type Traits struct {
	*protocol.Kind

	NonReentrant bool
	Fenced       bool
	// Polling is the pause between the requests of waiters that do not subscribe; nil: they do.
	Polling *Backoff
	// Queue is the local queue, if it is not the kind's.
	Queue string
	// Permits are the permits that an acquire is about; nil if the kind has none.
	Permits *Permits
	// Refuser makes the error of a refusal; nil: [Errors.Locked].
	Refuser Refuser
}

// Permits are several permits, which are one hold.
type Permits struct {
	// IDs returns the IDs of those that are held.
	IDs func() []string
	// Account tells apart the accounts of one owner: it has one for each hold.
	Account string
	// Channel is the channel on which holders receive the changes that others make to their holds.
	Channel string
}

// Refuser makes the error of a refusal.
type Refuser interface{ Refusal(r script.Reply) error }

// handsOff reports whether a hold may move within the process. A token is of one hold, and waiters that poll hear nothing.
func (t *Traits) handsOff() bool { return t.AllowsHandoff && !t.Fenced && t.Polling == nil }

// listed reports whether waiters have entries in the waitlist. Waiters that poll receive no grants.
func (t *Traits) listed() bool { return t.Waitlist && t.Polling == nil }

// Lock is one lock, or one side of it, of one client.
type Lock struct {
	Traits

	Engine *Engine
	Name   string
	// Requests builds what it asks of Redis.
	Requests protocol.Waitable
}

// HoldRequests builds what holders ask of Redis; nil if the lock has no holds.
func (l *Lock) HoldRequests() protocol.Lock {
	held, _ := l.Requests.(protocol.Lock)
	return held
}

// WaitObserver is told, on the calling goroutine, that a call begins to wait, how many are ahead, and why it waits, or nil if
// that is not known. It may panic.
type WaitObserver interface {
	Waits(ctx context.Context, ahead int, why error)
}

// Args are what a call asks for.
type Args struct {
	Lease time.Duration
	// Fixed says that the lease is not renewed. RenewFirst renews it all the same until [Hold.FixLease]: the hold is one of
	// several, and the others are still to be had. Cuts says to cut it to what MaxHold leaves; else a longer one is an error.
	Fixed, RenewFirst, Cuts bool
	// MinHold is how long others do not get the lock, whoever unlocks it. AtLeast is the least time to live to ask for.
	MinHold, AtLeast time.Duration
	// Wait bounds the call; 0: it is unbounded. OneTry says that there is no waiting at all.
	Wait   time.Duration
	OneTry bool
	// OnWait is told that the call begins to wait; nil: nobody is.
	OnWait WaitObserver
}

// Retained is for how long a lock is kept from others, by itself or as one of several.
func (g *Args) Retained() time.Duration { return max(g.MinHold, g.AtLeast) }

// Report is how a call went.
type Report struct {
	// HadToWait says that Args.OnWait was told, or would have been.
	HadToWait bool
	// HandedOver says that the hold passed inside the process, without a word to Redis.
	HandedOver bool
}

// Same reports whether two are one lock, or its two sides.
func (l *Lock) Same(other *Lock) bool {
	return l.Engine == other.Engine && l.accountKey("") == other.accountKey("")
}

// accountKey returns the key of an owner's account.
func (l *Lock) accountKey(owner string) accountKey {
	namespace := l.Namespace
	if l.Permits != nil {
		namespace = l.Permits.Account
	}
	return accountKey{l.Name, namespace, owner}
}

// Recheck has this client's own holders of the lock look whether they still hold it.
func (l *Lock) Recheck() {
	l.Engine.accounts.each(func(a *account) {
		if a.name != l.Name {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for s := range a.opened {
			if s.entry != nil {
				l.Engine.watchdog.Check(s.entry)
			}
		}
	})
}

// queueFor is which queue of this process an owner waits in, and what the queue listens to.
func (l *Lock) queueFor(owner string) waitqueue.Key {
	return waitqueue.Key{Kind: cmp.Or(l.Queue, l.Kind.Name), Name: l.Name, Channel: l.Requests.Channel(owner)}
}

// OpAcquire is what errors call an acquire.
const OpAcquire = "acquire"

// retryInBackground repeats a call in the background until Redis answers, or may soon forget the call's id.
func (l *Lock) retryInBackground(op string, request script.Request) {
	l.Engine.Tasks.Go(func() {
		end := mono.Now().Add(Outage * l.Engine.Timeout)
		l.repeat("", op, end, func(call.Result) script.Request { return request })
	})
}

// Detached sends a call that must take effect even if its caller gives up: here until ctx ends or the timeout has run out, and
// after that in the background.
func (l *Lock) Detached(ctx context.Context, op string, request script.Request) (call.Result, error) {
	e := l.Engine
	if !e.Tasks.Begin() {
		return call.Result{}, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	defer e.Tasks.End()
	res := e.Calls.Do(ctx, request, nil)
	if res.Err == nil {
		return res, l.notAnnounced(request, res)
	}
	if e.Life.Err() != nil {
		return res, lockerr.Problem(l.Name, "", lockerr.Closed)
	}
	goesOn := len(res.Unknown) > 0 || res.WorthRepeating() || ctx.Err() != nil
	if goesOn {
		l.retryInBackground(op, request)
	}
	if ctx.Err() != nil {
		return res, l.contextError(ctx, op, goesOn, &res)
	}
	return res, e.Errors.Backend(op, l.Name, goesOn, res.Why())
}

// Invoke sends one request for a user. If the context ends a request that Redis could still have answered in time, the error is
// the context's alone, although the request may take effect.
func (l *Lock) Invoke(ctx context.Context, op string, request script.Request) (call.Result, error) {
	e := l.Engine
	if err := e.begin(ctx, op, l.Name); err != nil {
		return call.Result{}, err
	}
	defer e.Tasks.End()
	open, stop := e.UntilClosing(ctx)
	defer stop()
	res := e.Calls.Do(open, request, nil)
	switch {
	case res.Err == nil:
		return res, l.notAnnounced(request, res)
	case EndedByCaller(ctx):
		return res, l.contextError(ctx, op, len(res.Unknown) > 0, &res)
	case e.Closing.Err() != nil:
		return res, lockerr.Problem(l.Name, "", lockerr.Closed)
	default:
		return res, e.Errors.Backend(op, l.Name, len(res.Unknown) > 0, ForUser(res.Why()))
	}
}

// contextError returns the error of a request that the caller's context has ended.
func (l *Lock) contextError(ctx context.Context, op string, mayHaveRun bool, res *call.Result) error {
	e := l.Engine
	var known error
	if why := e.noReply(ctx, res, true); why != nil {
		known = e.Errors.Backend(op, l.Name, mayHaveRun, ForUser(why))
	}
	return e.Errors.WithReason(ContextError(ctx, l.Name), known)
}

// repeat sends what next returns until Redis answers, end has passed, or there is nothing more to send; next is told what
// became of the last one. What goes wrong is told to Config.Failed. The attempts are those that were not answered.
func (l *Lock) repeat(owner, op string, end mono.Time, next func(last call.Result) script.Request) (res call.Result, unknown []*call.Attempt) {
	e := l.Engine
	for request := next(res); !request.IsZero(); request = next(res) {
		res = e.Calls.Do(e.Life, request, nil)
		unknown = append(unknown, res.Unknown...)
		if err := l.notAnnounced(request, res); err != nil {
			e.Failed(l, owner, err)
		}
		if res.Err == nil {
			break
		}
		// While the client closes, what Redis refuses is not tried again if it ends with its lease. Nothing ends what has no owner.
		over := mono.Now() > end || owner != "" && e.Closing.Err() != nil && call.Code(res.Why()) != ""
		if over || !res.WorthRepeating() {
			e.Failed(l, owner, e.Errors.Backend(op, l.Name, len(res.Unknown) > 0, ForUser(res.Why())))
			break
		}
	}
	return res, unknown
}

// notAnnounced tells a user about a call that has had its effect, of which Redis told nobody. It is nil if Redis did.
func (l *Lock) notAnnounced(request script.Request, res call.Result) error {
	why := res.Reply.Untold()
	if !res.Has(script.Done) || why == "" {
		return nil
	}
	channel := request.Channel
	if channel == "" { // a fair lock's script publishes on the channels of its waiters
		channel = l.Requests.Channel("*")
	}
	return lockerr.Problem(l.Name, fmt.Sprintf("let the Redis user publish on %q (docs/acl.md): %s", channel, why), lockerr.Untold)
}
