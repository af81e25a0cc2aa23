package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/engine"
)

// Hooks are told what happens to locks: for metrics, traces, logs, or the callbacks of an executeInLock. Each is optional.
// [LogHooks] are for a log, and the module otel has some for OpenTelemetry.
//
// What a call's return shows is told on the caller's goroutine: OnWait, OnRefuse, OnAcquire, OnPass, OnRelease, and OnLost
// and OnEnd if Unlock or Detach ends the hold. What happens by itself is told on a goroutine of its own. The client's
// hooks for the parts of several locks may run on goroutines of the library. The context is that of the call or the hold,
// and may have ended; that of a failure in the background may be empty.
//
// A hook that blocks delays its call, and in OnWait those who wait behind it, but no renewal and no clean-up. A hook
// closes its client in a goroutine: Close waits for the call that OnWait is part of, for the client's timeout at most, and
// [Client.Shutdown] for holds. If a hook panics on the caller's goroutine, the caller gets the panic once everything that
// the call has acquired is given back; elsewhere it ends the process.
//
// Of several locks, the client's hooks are told of each lock, and those of the call of the whole, which is not renewed.
// What begins ends: each OnWait is followed by one of OnAcquire, OnPass and OnRefuse whose event says HadToWait, and each
// OnAcquire by one OnEnd, as long as no hook panics.
type Hooks struct {
	// OnWait is told of an acquire that begins to wait: behind others of this process, because it was refused, or because
	// Redis is away. Ahead says how many are before it. Err is the last refusal or failure, as far as that is known without
	// asking Redis: a [*LockedError] says who holds the lock, or that a call of this client does.
	OnWait func(ctx context.Context, e Event)
	// OnRefuse is told of an acquire that returns an error: it was refused, its wait is over, its context has ended, or
	// Redis failed. Err says which.
	OnRefuse func(ctx context.Context, e Event)
	// OnAcquire is told of each new hold, nested ones included.
	OnAcquire func(ctx context.Context, e Event)
	// OnPass is told of each Acquire of an [UnleasedSemaphore] and each Await of a [Latch] that has succeeded: they have
	// no holds.
	OnPass func(ctx context.Context, e Event)
	// OnRenew is told, in no fixed order, of each renewal of a hold; Err is nil if it was acknowledged.
	OnRenew func(ctx context.Context, e Event)
	// OnRelease is told after each Unlock that gave its hold back in Redis, or handed it over.
	OnRelease func(ctx context.Context, e Event)
	// OnLost is told of each hold that was lost, after its context was cancelled. Err matches [ErrLost] and says why.
	OnLost func(ctx context.Context, e Event)
	// OnEnd is told once of the end of each hold that OnAcquire was told of, whatever has ended it, after OnRelease or
	// OnLost. Err is nil after an Unlock that gave it back or handed it over, and after Detach; otherwise it is what
	// Unlock returns, why the hold was lost, or [ErrClosed] if the client gave it back when it was closed.
	OnEnd func(ctx context.Context, e Event)
	// OnError is told, in no fixed order, of failures that no call returns: a clean-up in the background that Redis did
	// not answer to, an outage through which a call waits (once for all who wait for a lock in one client, for each if the
	// lock is fair), a campaign of [Lead], the [ErrUntold] of a [SyncLocker], and that [Permits] says another number than there are.
	OnError func(ctx context.Context, e Event)
}

// Event is what hooks are told.
type Event struct {
	// Name is the lock's name.
	Name string
	// Kind is mutex, fair, read, write, permits, semaphore, latch, multi or redlock.
	Kind string
	// Token is the hold's fencing token, if it has one.
	Token int64
	// Ahead is how many of this process wait for the lock already; 0 for a fair lock, whose line is in Redis. Only for
	// OnWait.
	Ahead int
	// Waited is how long the acquire took. Only for OnAcquire, OnPass and OnRefuse.
	Waited time.Duration
	// HadToWait says that OnWait was told of the acquire. Only for OnAcquire, OnPass and OnRefuse.
	HadToWait bool
	// Held is how long the hold has lasted. Only for OnRenew, OnRelease, OnLost and OnEnd.
	Held time.Duration
	// HandedOver says that the hold passed inside this process, without a word to Redis: to it for OnAcquire, and from it
	// for OnRelease and OnEnd. A read hold has joined readers of this process, or has left them reading.
	HandedOver bool
	// Err is the reason for OnWait, OnLost, OnRefuse and OnEnd, and the failure for OnRenew and OnError.
	Err error

	owner Owner
	hold  *Hold        // nil: owner says it
	lock  *engine.Lock // nil: several locks
}

// Owner returns the hold's owner, and keeps the hold from passing on, as [Hold.Owner] does; the zero Owner where there
// is none yet, or several.
func (e Event) Owner() Owner {
	if e.hold != nil {
		return e.hold.Owner()
	}
	return e.owner
}

// hookList tells several sets of hooks, the client's first.
type hookList []Hooks

// hook chooses one of some hooks.
type hook func(Hooks) func(context.Context, Event)

func onWait(h Hooks) func(context.Context, Event)    { return h.OnWait }
func onRefuse(h Hooks) func(context.Context, Event)  { return h.OnRefuse }
func onAcquire(h Hooks) func(context.Context, Event) { return h.OnAcquire }
func onPass(h Hooks) func(context.Context, Event)    { return h.OnPass }
func onRenew(h Hooks) func(context.Context, Event)   { return h.OnRenew }
func onRelease(h Hooks) func(context.Context, Event) { return h.OnRelease }
func onLost(h Hooks) func(context.Context, Event)    { return h.OnLost }
func onEnd(h Hooks) func(context.Context, Event)     { return h.OnEnd }
func onError(h Hooks) func(context.Context, Event)   { return h.OnError }

// want reports whether anybody wants to be told.
func (l hookList) want(which hook) bool {
	for _, h := range l {
		if which(h) != nil {
			return true
		}
	}
	return false
}

// tell tells all of them.
func (l hookList) tell(ctx context.Context, which hook, e Event) {
	for _, h := range l {
		if f := which(h); f != nil {
			f(ctx, e)
		}
	}
}

// tellFailure tells all of them of a failure that no call returns. Nobody waits for them: neither a clean-up, nor Close.
func (l hookList) tellFailure(ctx context.Context, e Event) {
	if l.want(onError) {
		go l.tell(ctx, onError, e)
	}
}

// report is how an acquire went, for the hooks.
type report struct {
	started time.Time
	engine.Report
}

// describe puts into an event how an acquire went.
func (r report) describe(e *Event) {
	e.Waited, e.HadToWait, e.HandedOver = time.Since(r.started), r.HadToWait, r.HandedOver
}

// tellResult tells the hooks of an acquire that leaves no hold. Own are those of the call.
func tellResult(ctx context.Context, which hook, l *handle, own hookList, how report, err error) {
	e := Event{Name: l.Name, Kind: l.Kind.Name, Err: err, lock: &l.Lock}
	how.describe(&e)
	l.client.config.hooks.tell(ctx, which, e)
	own.tell(ctx, which, e)
}
