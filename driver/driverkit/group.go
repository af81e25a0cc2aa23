package driverkit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/list"
)

const (
	// fewWorkers is the number of workers while replies are fast, maxWorkers if the round trip is
	// long. Abandoned ones do not count.
	fewWorkers = 2
	maxWorkers = 8
	// longRoundTrip is how long small batches are under way if the round trip is long. Batches of
	// fewCalls calls or more are not small: it is their work that takes so long.
	longRoundTrip = 300 * time.Microsecond
	fewCalls      = 8
	// maxBatch is the largest number of calls in a batch.
	maxBatch = 128
	// maxAbandoned is the largest number of abandoned workers.
	maxAbandoned = 64
	// recheckAfter is the time after which queued calls may get one more worker.
	recheckAfter = 10 * time.Millisecond
	// idleTimeout is how long an idle worker waits for a call before it ends.
	idleTimeout = 50 * time.Millisecond
	// unanswered is the time after which a caller that leaves has had no answer. If one leaves
	// earlier, that says nothing of the connection.
	unanswered = 2 * slowReply
	// notSent is the epoch of a batch that waits for a new connection.
	notSent = -1
)

// Group sends the calls to one node in batches. [NewGroup] makes one. It is safe for concurrent
// use. It need not be closed: its goroutines end 50 ms after the last call, or when the send
// function returns.
type Group struct {
	// Doubt is about the connections to the node. The group notes its calls there, and resolves it
	// before it sends any. An adapter that makes other calls to the node does the same.
	Doubt Doubt

	send   func([]*Call)
	renew  func()
	direct directWay

	unused sync.Pool // of *Call

	mu       sync.Mutex
	queue    list.List[*Call]
	underWay map[*batch]struct{} // without those of abandoned workers
	used     time.Time           // when a call was last sent
	workers  workers
}

// workers are counted here. Group.mu guards that.
type workers struct {
	// running is how many there are, without the abandoned ones. The connection of an abandoned
	// worker may be silent forever.
	running    int
	abandoned  int
	idle       int           // how many of the running ones wait for a call
	rechecking bool          // a timer is going to call Group.recheck
	wake       chan struct{} // wakes an idle worker; its capacity is maxWorkers
}

// wakeIdle wakes an idle worker, if there is one.
func (w *workers) wakeIdle() bool {
	if w.idle == 0 {
		return false
	}
	w.idle--
	w.wake <- struct{}{}
	return true
}

// retire ends an idle worker, unless it has been woken.
func (w *workers) retire() bool {
	if w.idle == 0 {
		return false
	}
	w.idle--
	w.running--
	return true
}

// abandon gives up a worker that is not idle, unless too many have been.
func (w *workers) abandon() bool {
	if w.abandoned == maxAbandoned {
		return false
	}
	w.running--
	w.abandoned++
	return true
}

// batch is what a worker sends at once. Its calls may have ended, and are not to be touched.
type batch struct {
	since time.Time
	size  int // how many calls there were
	// epoch is that of Group.Doubt in which it was sent; notSent before that.
	epoch atomic.Int64
	// unended is how many calls have not ended. Of these, awaited is how many have a caller that
	// waits.
	unended, awaited atomic.Int32
}

// NewGroup returns a group. It does no I/O, and starts no goroutine.
//
// The function send sends a batch of 1 to 128 calls, each once and if [Call.Sending] reports true, and ends each of them
// with [Call.End], exactly once. It runs on a worker's goroutine, on several at the same time. It must
// return, though no caller waits for it: it heeds no context, so the client's timeouts bound it. It may
// leave calls to other goroutines, and return before they have ended. It may change the slice,
// and does not keep it.
//
// The function direct sends a call on its caller's goroutine; nil: workers send all calls.
//
// The function renew sees to it that send and direct use new connections from then on, see [Doubt]. It
// runs before one of them, and may block like send; it must be quick if there is a direct.
func NewGroup(send func([]*Call), direct Direct, renew func()) *Group {
	return &Group{
		send: send, renew: renew, direct: directWay{send: direct}, underWay: map[*batch]struct{}{},
		workers: workers{wake: make(chan struct{}, maxWorkers)},
	}
}

// Eval sends a call, and returns its reply as [driver.Driver]'s Eval does. If ctx ends first, it
// returns at once, or within [DirectTimeout] if it sends the call itself; the package comment says
// what becomes of the call. If ctx has ended before, nothing is sent. Errors are [*driver.Error].
func (g *Group) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	reply, err := g.eval(ctx, call)
	return reply, driver.NotTheCallers(ctx, err)
}

func (g *Group) eval(ctx context.Context, call driver.Call) (any, error) {
	if g.beginDirect() {
		reply, err := g.evalDirect(ctx, call)
		if !errors.Is(err, ErrNotRun) {
			return reply, err
		}
	}
	c := g.newCall(ctx, call)
	g.add(c)
	return c.await(ctx)
}

// newCall returns a call whose caller waits.
func (g *Group) newCall(ctx context.Context, call driver.Call) *Call {
	c, ok := g.unused.Get().(*Call)
	if !ok {
		c = &Call{ended: make(chan struct{}, 1)}
		c.group, c.place.Value = g, c
	}
	c.Call, c.batch = call, nil
	c.Deadline, _ = ctx.Deadline()
	c.state.Store(awaited)
	return c
}

// IdleSince reports whether no call is queued or under way, and none was sent at or after t.
// Abandoned workers do not count. An adapter that has a group for each node of a cluster can
// drop groups that are idle for long: nodes come and go.
func (g *Group) IdleSince(t time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.workers.running == 0 && !g.direct.underWay && g.queue.Len() == 0 && g.used.Before(t)
}

// add queues a call, and wakes or starts a worker if necessary.
func (g *Group) add(c *Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.InsertAfter(&c.place, g.queue.Last())
	g.wakeWorker()
}

// wakeWorker wakes or starts a worker, if there may be one more. The caller holds mu.
func (g *Group) wakeWorker() {
	switch {
	case g.workers.wakeIdle():
	case g.workers.running < fewWorkers || g.workers.running < maxWorkers && g.isFar():
		g.workers.running++
		go g.work()
	case !g.workers.rechecking:
		g.workers.rechecking = true
		time.AfterFunc(recheckAfter, g.recheck)
	}
}

// recheck asks again whether queued calls need one more worker: perhaps no further call
// arrives that would ask.
func (g *Group) recheck() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.workers.rechecking = false
	if g.queue.Len() > 0 {
		g.wakeWorker()
	}
}

// isFar reports whether small batches have been under way for a long round trip, or any batch for
// longer than slowReply. The caller holds mu.
func (g *Group) isFar() bool {
	calls, oldest := 0, time.Now()
	for b := range g.underWay {
		calls += b.size
		if b.since.Before(oldest) {
			oldest = b.since
		}
	}
	silence := time.Since(oldest)
	return silence > longRoundTrip && calls < fewCalls*g.workers.running || silence > slowReply
}

// work is a worker.
func (g *Group) work() {
	timer := time.NewTimer(idleTimeout)
	defer timer.Stop()
	room := make([]*Call, maxBatch)
	for {
		if b, calls := g.take(room); b != nil {
			b.epoch.Store(g.Doubt.Resolve(g.renew))
			g.send(calls)
			if !g.ended(b) {
				return
			}
			continue
		}
		timer.Reset(idleTimeout)
		select {
		case <-g.workers.wake:
		case <-timer.C:
			if g.retire() {
				return
			}
			<-g.workers.wake // the worker was woken in that instant
		}
	}
}

// take returns the calls to send next. If there are none, the worker is idle.
func (g *Group) take(room []*Call) (*batch, []*Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue.Len() == 0 {
		g.workers.idle++
		return nil, nil
	}
	b := &batch{since: time.Now()}
	b.epoch.Store(notSent)
	for ; g.queue.Len() > 0 && b.size < maxBatch; b.size++ {
		c := g.queue.First().Value
		g.queue.Remove(&c.place)
		c.batch, room[b.size] = b, c
	}
	b.unended.Store(int32(b.size))
	b.awaited.Store(int32(b.size))
	g.used = b.since
	g.underWay[b] = struct{}{}
	return b, room[:b.size]
}

// ended notes the end of a batch. It reports false if the worker is abandoned.
func (g *Group) ended(b *batch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, counts := g.underWay[b]
	delete(g.underWay, b)
	if !counts {
		g.workers.abandoned--
	}
	if time.Since(b.since) > slowReply {
		g.direct.responsive.Store(false)
	}
	return counts
}

// withdraw takes a call out of the queue. It reports false if the call is under way.
func (g *Group) withdraw(c *Call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.batch != nil {
		return false
	}
	g.queue.Remove(&c.place)
	return true
}

// awaitedLess notes that one call of a batch is no longer awaited. If none is, and some have not
// ended, the worker is abandoned.
func (g *Group) awaitedLess(b *batch) {
	if b.awaited.Add(-1) > 0 || b.unended.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, counts := g.underWay[b]; !counts || b.unended.Load() == 0 || !g.workers.abandon() {
		return
	}
	delete(g.underWay, b)
	if g.queue.Len() > 0 {
		g.wakeWorker()
	}
}

// noteSilence notes that a caller leaves while its batch is under way. In a process that is slow to schedule goroutines, the
// reply may have arrived and wait for its reader.
func (g *Group) noteSilence(b *batch) {
	if time.Since(b.since) >= unanswered && schedulingDelay() < slowReply {
		g.Doubt.raise(b.epoch.Load())
	}
}

// schedulingDelay returns how long it takes until this goroutine runs again after it has yielded.
func schedulingDelay() time.Duration {
	start := time.Now()
	runtime.Gosched()
	return time.Since(start)
}

// retire ends an idle worker, unless it has been woken.
func (g *Group) retire() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.workers.retire()
}
