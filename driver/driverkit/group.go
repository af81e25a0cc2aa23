package driverkit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/list"
)

const (
	// MaxWorkers is how many batches are under way at most, if the way to the server is long.
	MaxWorkers = 8
	// fewWorkers is how many are as long as they are answered fast.
	fewWorkers = 2
	// longWay is after which time without an answer the way counts as long, and fewCalls
	// how many calls a batch then has: with more it is the work that takes so long.
	longWay  = 300 * time.Microsecond
	fewCalls = 8
	// maxBatch is how many calls one batch has at most.
	maxBatch = 128
	// maxAbandoned is how many workers there are at most that do not count any more.
	maxAbandoned = 64
	// recheckAfter is how soon it is looked again whether queued calls need one more worker.
	recheckAfter = 10 * time.Millisecond
	// idleTimeout is how long an idle worker waits for a call before it ends.
	idleTimeout = 50 * time.Millisecond
)

// Group gathers the calls to one node. Use [New]. It is safe for concurrent use.
type Group struct {
	send  func([]*Call)
	alone Alone

	unused sync.Pool // of *Call

	mu       sync.Mutex
	queue    list.List[*Call]
	underWay map[*batch]struct{} // those whose workers count
	// workers is how many there are. One whose calls have all been given up does not
	// count any more: its connection may be silent for ever.
	workers    int
	abandoned  int  // how many do not count
	idle       int  // how many of those that count wait
	rechecking bool // a timer does so
	// answers is set if the last call was answered within prompt.
	answers atomic.Bool
	used    time.Time     // when a call was last sent
	busy    bool          // a caller sends its call itself
	wake    chan struct{} // wakes an idle one; as large as there can be of them
}

// batch is what a worker sends at once. Its calls may have ended, and are not to be touched.
type batch struct {
	since time.Time
	size  int // how many calls there were
	// unended is how many of them have not ended, awaited how many have not, and nobody has
	// given up.
	unended, awaited atomic.Int32
}

// New returns a group whose calls send sends, and ends. It is called by several goroutines,
// with some calls each. Alone sends one on the goroutine of its caller; nil: all go with the
// workers.
func New(send func([]*Call), alone Alone) *Group {
	return &Group{send: send, alone: alone, underWay: map[*batch]struct{}{}, wake: make(chan struct{}, MaxWorkers)}
}

// Eval has a call sent, and returns what came of it, as [driver.Driver] promises.
func (g *Group) Eval(ctx context.Context, call driver.Call) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.ConnectionError(err, true)
	}
	reply, err := g.eval(ctx, call)
	return reply, driver.NotTheCallers(ctx, err)
}

func (g *Group) eval(ctx context.Context, call driver.Call) (any, error) {
	if g.beginAlone() {
		reply, err := g.evalAlone(ctx, call)
		if err != ErrNotRun { //nolint:errorlint // nobody wraps it
			return reply, err
		}
	}
	c := g.newCall(ctx, call)
	g.add(c)
	return g.await(ctx, c)
}

// IsUnused reports whether nothing is under way, or was sent since then.
func (g *Group) IsUnused(since time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.workers == 0 && !g.busy && g.queue.Len() == 0 && g.used.Before(since)
}

// add queues a call, and sees to it that somebody sends it.
func (g *Group) add(c *Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue.InsertAfter(&c.place, g.queue.Last())
	g.wakeWorker()
}

// wakeWorker wakes or starts a worker, if there ought to be one more. mu is held.
func (g *Group) wakeWorker() {
	switch {
	case g.idle > 0:
		g.idle--
		g.wake <- struct{}{}
	case g.workers < fewWorkers || g.workers < MaxWorkers && g.isFar():
		g.workers++
		go g.work()
	case !g.rechecking:
		g.rechecking = true
		time.AfterFunc(recheckAfter, g.recheck)
	}
}

// recheck looks again whether queued calls need a worker: nobody may come any more who would.
func (g *Group) recheck() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rechecking = false
	if g.queue.Len() > 0 {
		g.wakeWorker()
	}
}

// isFar reports whether small batches have been on their way for long, or any for so long that
// the server has fallen silent. mu is held.
func (g *Group) isFar() bool {
	calls, oldest := 0, time.Now()
	for b := range g.underWay {
		calls += b.size
		if b.since.Before(oldest) {
			oldest = b.since
		}
	}
	silence := time.Since(oldest)
	return silence > longWay && calls < fewCalls*g.workers || silence > prompt
}

// work is a worker. It lives for as long as there are calls, and a little longer.
func (g *Group) work() {
	timer := time.NewTimer(idleTimeout)
	defer timer.Stop()
	room := make([]*Call, maxBatch)
	for {
		if b, calls := g.take(room); b != nil {
			g.send(calls)
			if !g.ended(b) {
				return
			}
			continue
		}
		timer.Reset(idleTimeout)
		select {
		case <-g.wake:
		case <-timer.C:
			if g.retire() {
				return
			}
			<-g.wake // it was woken in that instant
		}
	}
}

// take returns the calls to send next; none if there are none, and the worker is idle.
func (g *Group) take(room []*Call) (*batch, []*Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue.Len() == 0 {
		g.idle++
		return nil, nil
	}
	b := &batch{since: time.Now()}
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

// ended notes the end of a batch. It reports false if the worker does not count any more.
func (g *Group) ended(b *batch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, counts := g.underWay[b]
	delete(g.underWay, b)
	if !counts {
		g.abandoned--
	}
	if time.Since(b.since) > prompt {
		g.answers.Store(false)
	}
	return counts
}

// withdraw takes a call out of the queue that nobody waits for any more. It reports false if
// the call is under way.
func (g *Group) withdraw(c *Call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.batch != nil {
		return false
	}
	g.queue.Remove(&c.place)
	return true
}

// awaitedLess notes that one call less of a batch is awaited. If none is, and some have not
// ended, its worker does not count any more.
func (g *Group) awaitedLess(b *batch) {
	if b.awaited.Add(-1) > 0 || b.unended.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, counts := g.underWay[b]; !counts || b.unended.Load() == 0 || g.abandoned == maxAbandoned {
		return
	}
	delete(g.underWay, b)
	g.workers--
	g.abandoned++
	if g.queue.Len() > 0 {
		g.wakeWorker()
	}
}

// retire ends an idle worker, unless it has been woken.
func (g *Group) retire() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == 0 {
		return false
	}
	g.idle--
	g.workers--
	return true
}
