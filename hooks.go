package holdfast

import "time"

// Hooks are told what happens to holds: for metrics, logs, or the callbacks of
// an executeInLock. Each is optional. OnAcquire and OnRelease run on the calling
// goroutine, OnLost and OnError usually on one of the client's; a hook that blocks
// delays that goroutine. [Client.Close] does not wait for it, and may be called
// from it.
type Hooks struct {
	// OnAcquire is told of each new hold, nested ones included.
	OnAcquire func(Event)
	// OnRelease is told after each Unlock that gave its hold back in Redis.
	OnRelease func(Event)
	// OnLost is told of each hold that was lost, after its context was
	// cancelled. Err matches [ErrLost] and says why.
	OnLost func(Event)
	// OnError is told of failures in the background that no call returns: a
	// clean-up that Redis did not answer to.
	OnError func(Event)
}

// Event is what hooks are told.
type Event struct {
	// Name is the lock's name, Owner the hold's owner.
	Name  string
	Owner Owner
	// Waited is how long the acquire took. Only for OnAcquire.
	Waited time.Duration
	// Held is how long the hold lasted. Only for OnRelease and OnLost.
	Held time.Duration
	// Err is the reason for OnLost and the failure for OnError.
	Err error
}

// hookList tells several sets of hooks, the client's first.
type hookList []Hooks

func (l hookList) tell(which func(Hooks) func(Event), e Event) {
	for _, h := range l {
		if f := which(h); f != nil {
			f(e)
		}
	}
}

func (l hookList) acquired(e Event) { l.tell(func(h Hooks) func(Event) { return h.OnAcquire }, e) }
func (l hookList) released(e Event) { l.tell(func(h Hooks) func(Event) { return h.OnRelease }, e) }
func (l hookList) lost(e Event)     { l.tell(func(h Hooks) func(Event) { return h.OnLost }, e) }
func (l hookList) failed(e Event)   { l.tell(func(h Hooks) func(Event) { return h.OnError }, e) }
