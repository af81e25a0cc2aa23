package holdfast

import (
	"context"
	"runtime"
	"time"
)

// Hooks are told what happens to locks: for metrics, traces, logs, or the callbacks of
// an executeInLock. [LogHooks] are for a log, and the module otel has some for OpenTelemetry.
// Each is optional. [Client.Close] does not wait for hooks, and
// may be called from one; [Client.Shutdown] may not, since it waits for holds.
//
// OnRefuse, OnAcquire, OnPass and OnRelease run on the calling goroutine, the others usually on one of their own, and
// the call waits for OnWait. Those of the client that are told of a server's lock of a [NewRedLock], or of the release of one of
// several locks, run on goroutines of the library's. A hook
// that blocks delays its call, but no renewal and no clean-up. One that blocks in OnWait also delays those
// who wait behind its call, which may have been handed the lock meanwhile.
//
// If OnWait, OnAcquire or OnPass panics, so does the call, after it has given back what it has acquired (an
// UnleasedSemaphore's permits in the background, unless the hook has closed the client). A hook that
// panics on another goroutine than the caller's ends the process, as everywhere in Go; OnWait alone does not.
//
// The context is the one that the call was made with, or that of the hold; it may have
// ended. That of a failure in the background, where there is neither, is empty.
//
// Of several locks, the client's hooks are told of each lock, and those of the call of
// the whole, which is not renewed: its locks are.
//
// What begins ends, so counts go back to zero: each OnWait is followed by one of OnAcquire,
// OnPass and OnRefuse whose event says HadToWait, and each OnAcquire by one OnEnd.
type Hooks struct {
	// OnWait is told of an acquire that begins to wait: behind others of this process,
	// because it was refused, or because Redis is away. Ahead says how many are before it.
	OnWait func(ctx context.Context, e Event)
	// OnRefuse is told of an acquire that returns an error: it was refused, its wait is
	// over, its context has ended, or Redis failed. Err says which.
	OnRefuse func(ctx context.Context, e Event)
	// OnAcquire is told of each new hold, nested ones included.
	OnAcquire func(ctx context.Context, e Event)
	// OnPass is told of each Acquire of an [UnleasedSemaphore] and each Await of a [Latch] that
	// has succeeded: they have no holds.
	OnPass func(ctx context.Context, e Event)
	// OnRenew is told of each renewal of a hold; Err is nil if it was acknowledged. Each is
	// told on a goroutine of its own, so their order is not fixed.
	OnRenew func(ctx context.Context, e Event)
	// OnRelease is told after each Unlock that gave its hold back in Redis, or handed it over.
	OnRelease func(ctx context.Context, e Event)
	// OnLost is told of each hold that was lost, after its context was
	// cancelled. Err matches [ErrLost] and says why.
	OnLost func(ctx context.Context, e Event)
	// OnEnd is told once of the end of each hold that OnAcquire was told of, whatever has ended
	// it, after OnRelease or OnLost. Err is nil after an Unlock that gave it back or handed it
	// over, and after Detach; otherwise it is what Unlock returns, why the hold was lost, or
	// [ErrClosed] if the client gave it back when it was closed.
	OnEnd func(ctx context.Context, e Event)
	// OnError is told, in no fixed order, of failures that no call returns: a clean-up in the background that
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
	// Waited is how long the acquire took. Only for OnAcquire, OnPass and OnRefuse.
	Waited time.Duration
	// HadToWait says that OnWait was told of the acquire. Only for OnAcquire, OnPass and OnRefuse.
	HadToWait bool
	// Held is how long the hold has lasted. Only for OnRenew, OnRelease, OnLost and OnEnd.
	Held time.Duration
	// HandedOver says that the hold passed inside this process, without a word to Redis: to it
	// for OnAcquire, and from it for OnRelease and OnEnd. Of a read hold: it has
	// joined others that read, or has left others reading, by what Redis has granted once.
	HandedOver bool
	// Err is the reason for OnLost, OnRefuse and OnEnd, and the failure for OnRenew and OnError.
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

// tell tells all of them, also if one panics: what has begun for others ends for them, too.
func (l hookList) tell(ctx context.Context, which hook, e Event) {
	for i, h := range l {
		if which(h) != nil {
			l.tellOne(ctx, which, e, i)
		}
	}
}

// tellOne tells the i-th of them, and those behind it if it does not return.
func (l hookList) tellOne(ctx context.Context, which hook, e Event, i int) {
	returned := false
	defer func() {
		if !returned {
			l[i+1:].tell(ctx, which, e)
		}
	}()
	which(l[i])(ctx, e)
	returned = true
}

// course is how an acquire went, for the hooks.
type course struct {
	started               time.Time
	hadToWait, handedOver bool
	waitHook              *waitHook
}

// waitHook is an OnWait that runs beside its acquire: see [acquisition.tellWaiting]. It is nil if nobody was told.
type waitHook struct {
	returned chan struct{} // closed when it is over
	instead  func()        // what it has done instead of returning: a panic, or an end of its goroutine. Set before returned is closed
}

// tellWaiting tells the hooks, once, that the acquire has to wait, and waits for them. They may close
// the client. So once that closes, or shuts down, the acquire gives up what it has without waiting
// for them. The call still returns after them: see [waitHook.await]. If they panic, the acquire ends, and the
// call panics when it has given back what it has: see [waitHook.repeat].
func (a *acquisition) tellWaiting(ahead int) {
	if a.toldWaiting {
		return
	}
	a.toldWaiting = true
	hooks := a.config.hooks
	if !hooks.want(onWait) {
		return
	}
	hook := &waitHook{returned: make(chan struct{})}
	a.waitHook = hook
	go func() { // owned by the call, which returns after it
		returns := false
		defer close(hook.returned)
		defer func() {
			if panicked := recover(); panicked != nil {
				hook.instead = func() { panic(panicked) }
			} else if !returns {
				hook.instead = runtime.Goexit
			}
		}()
		hooks.tell(a.caller, onWait, Event{Name: a.kind.name, Kind: a.kind.label, Ahead: ahead})
		returns = true
	}()
	select {
	case <-hook.returned:
		if hook.instead != nil {
			a.bound()
			a.stop() // a try that is due may still be made
		}
	case <-a.shutdown.Done():
	}
}

// await waits until OnWait is over.
func (h *waitHook) await() {
	if h != nil {
		<-h.returned
	}
}

// failed reports whether OnWait is over and has not returned.
func (h *waitHook) failed() bool {
	if h == nil {
		return false
	}
	select {
	case <-h.returned:
		return h.instead != nil
	default:
		return false
	}
}

// repeat does on the calling goroutine what OnWait has done instead of returning. It is over.
func (h *waitHook) repeat() {
	if h != nil && h.instead != nil {
		h.instead()
	}
}

// describe puts into an event how an acquire went.
func (c course) describe(e *Event) {
	e.Waited, e.HadToWait, e.HandedOver = time.Since(c.started), c.hadToWait, c.handedOver
}

// errHook is the error of an acquire that ends because a hook has panicked.
func errHook(name string) error { return problem(name, "a hook has panicked", ErrInvalid) }

// tellResult tells the hooks of an acquire that leaves no hold. Own are those of the call.
func tellResult(ctx context.Context, which hook, k *kind, own hookList, how course, err error) {
	how.waitHook.await()
	defer how.waitHook.repeat()
	e := Event{Name: k.name, Kind: k.label, Err: err}
	how.describe(&e)
	k.client.config.hooks.tell(ctx, which, e)
	own.tell(ctx, which, e)
}

// tellRefused tells the hooks of an acquire that has failed.
func tellRefused(ctx context.Context, k *kind, own hookList, how course, err error) {
	tellResult(ctx, onRefuse, k, own, how, err)
}
