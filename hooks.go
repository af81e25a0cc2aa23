package holdfast

import (
	"context"
	"time"
)

// Hooks are told what happens to locks: for metrics, traces, logs, or the callbacks of
// an executeInLock. Each is optional. OnWait, OnRefuse, OnAcquire and OnRelease run on
// the calling goroutine, the others usually on one of the client's; a hook that blocks
// delays that goroutine, and in OnWait those who wait behind it, since the lock may have been
// handed over to it meanwhile, but no renewal. [Client.Close] does not wait for it, and may be
// called from it.
//
// The context is the one that the call was made with, or that of the hold; it may have
// ended. That of a failure in the background, where there is neither, is empty.
//
// Of several locks, the client's hooks are told of each lock, and those of the call of
// the whole, which is not renewed: its locks are.
type Hooks struct {
	// OnWait is told of an acquire that begins to wait: behind others of this process,
	// because it was refused, or because Redis is away. Ahead says how many are before it.
	OnWait func(ctx context.Context, e Event)
	// OnRefuse is told of an acquire that returns an error: it was refused, its wait is
	// over, its context has ended, or Redis failed. Err says which.
	OnRefuse func(ctx context.Context, e Event)
	// OnAcquire is told of each new hold, nested ones included. An [UnleasedSemaphore] and a
	// [Latch] have none: they tell OnWait and OnRefuse.
	OnAcquire func(ctx context.Context, e Event)
	// OnRenew is told of each renewal of a hold; Err is nil if it was acknowledged. Each is
	// told on a goroutine of its own, so their order is not fixed.
	OnRenew func(ctx context.Context, e Event)
	// OnRelease is told after each Unlock that gave its hold back in Redis, or handed it over.
	OnRelease func(ctx context.Context, e Event)
	// OnLost is told of each hold that was lost, after its context was
	// cancelled. Err matches [ErrLost] and says why.
	OnLost func(ctx context.Context, e Event)
	// OnError is told of failures that no call returns: a clean-up in the background that
	// Redis did not answer to, a campaign of [Lead], the [ErrUntold] of a [SyncLocker].
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
	// Ahead is how many of this process wait for the lock already; 0 for a fair lock, whose
	// line is in Redis. Only for OnWait.
	Ahead int
	// Waited is how long the acquire took. Only for OnAcquire and OnRefuse.
	Waited time.Duration
	// Held is how long the hold has lasted. Only for OnRenew, OnRelease and OnLost.
	Held time.Duration
	// HandedOver says that the hold passed inside this process, without a word to Redis: to it
	// for OnAcquire, and from it for OnRelease. Of a read hold: it has
	// joined others that read, or has left others reading, by what Redis has granted once.
	HandedOver bool
	// Err is the reason for OnLost and OnRefuse, and the failure for OnRenew and OnError.
	Err error

	owner Owner
	hold  *Hold // nil: owner says it
}

// Owner returns the hold's owner, as [Hold.Owner] does; the zero Owner where there is none
// yet, or several.
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
func onRenew(h Hooks) func(context.Context, Event)   { return h.OnRenew }
func onRelease(h Hooks) func(context.Context, Event) { return h.OnRelease }
func onLost(h Hooks) func(context.Context, Event)    { return h.OnLost }
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

func (l hookList) tell(ctx context.Context, which hook, e Event) {
	for _, h := range l {
		if f := which(h); f != nil {
			f(ctx, e)
		}
	}
}
