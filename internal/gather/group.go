package gather

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
	// linger is how long an idle worker waits for a call before it ends.
	linger = 50 * time.Millisecond
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
	workers int
	idle    int // how many of them wait
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
	live  int // how many of them nobody has given up
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
	}
}

// isFar reports whether small batches have been on their way for long. mu is held.
func (g *Group) isFar() bool {
	calls, oldest := 0, time.Now()
	for b := range g.underWay {
		calls += b.size
		if b.since.Before(oldest) {
			oldest = b.since
		}
	}
	return time.Since(oldest) > longWay && calls < fewCalls*g.workers
}

// work is a worker. It lives for as long as there are calls, and a little longer.
func (g *Group) work() {
	timer := time.NewTimer(linger)
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
		timer.Reset(linger)
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
	b.live, g.used = b.size, b.since
	g.underWay[b] = struct{}{}
	return b, room[:b.size]
}

// ended notes the end of a batch. It reports false if the worker does not count any more.
func (g *Group) ended(b *batch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, counts := g.underWay[b]
	delete(g.underWay, b)
	if time.Since(b.since) > prompt {
		g.answers.Store(false)
	}
	return counts
}

// leave is told that nobody waits for a call any more. It reports whether the call will
// not be sent.
func (g *Group) leave(c *Call) (withdrawn bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := c.batch
	if b == nil {
		g.queue.Remove(&c.place)
		return true
	}
	b.live--
	if _, counts := g.underWay[b]; b.live > 0 || !counts {
		return false
	}
	delete(g.underWay, b)
	g.workers--
	if g.queue.Len() > 0 {
		g.wakeWorker()
	}
	return false
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
