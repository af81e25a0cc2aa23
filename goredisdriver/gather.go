package goredisdriver

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// fewWorkers is how many pipelines to one node are under way as long as they are
	// answered fast: the fewer there are, the more calls share one.
	fewWorkers = 2
	// maxWorkers is how many there are at most, if the way to the node is long.
	maxWorkers = 8
	// longWay is after which time without an answer the way counts as long, and fewCalls
	// how many calls a pipeline then has: with more it is the work that takes so long.
	longWay  = 300 * time.Microsecond
	fewCalls = 8
	// maxGathered is how many calls one pipeline has at most.
	maxGathered = 128
	// longestSilence is after what time a connection is given up, if the client does not say.
	longestSilence = 10 * time.Second
	// linger is how long an idle worker waits for a call before it ends.
	linger = 50 * time.Millisecond
)

// gatherer sends calls to one node. Calls that come while its workers are busy travel
// together: one connection, one write, one read.
type gatherer struct {
	driver *Driver
	node   redis.UniversalClient // the node's client, or the only one
	// client is the same, but it does not wait for a reply for ever.
	client redis.UniversalClient

	mu     sync.Mutex
	queue  list.List // of *sending
	flying map[*batch]struct{}
	// workers is how many there are. One whose calls have all been given up does not
	// count any more: its connection may be silent for ever.
	workers int
	idle    int           // how many of them wait
	work    chan struct{} // wakes an idle one; as large as there can be of them
}

// batch is what a worker sends at once. The calls are the worker's; gatherer.mu guards the
// rest, and how many they are.
type batch struct {
	calls []*sending
	since time.Time
	live  int // how many of the calls somebody waits for
}

// withReadTimeout bounds a client that has no ReadTimeout: it would lose a connection
// of its pool to each silent server.
func withReadTimeout(node redis.UniversalClient) redis.UniversalClient {
	client, ok := node.(*redis.Client)
	if !ok || client.Options().ReadTimeout > 0 {
		return node
	}
	return client.WithTimeout(longestSilence)
}

// gathererOf returns the gatherer of the node in charge of a call.
func (d *Driver) gathererOf(ctx context.Context, call driver.Call) (*gatherer, error) {
	if d.cluster == nil {
		return d.single, nil
	}
	node, err := d.nodeOf(ctx, call)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.nodes[node]
	if g == nil {
		g = newGatherer(d, node)
		d.nodes[node] = g
	}
	return g, nil
}

func newGatherer(d *Driver, node redis.UniversalClient) *gatherer {
	return &gatherer{driver: d, node: node, client: withReadTimeout(node), flying: map[*batch]struct{}{}, work: make(chan struct{}, maxWorkers)}
}

// nodeOf returns the client of the node in charge of a call. Before the client knows the
// nodes it asks for them, and does not heed the context: then one call asks for all.
func (d *Driver) nodeOf(ctx context.Context, call driver.Call) (*redis.Client, error) {
	key := ""
	if len(call.Keys) > 0 {
		key = call.Keys[0]
	}
	for !d.nodesKnown.Load() {
		found := d.findNodes(key)
		select {
		case <-found.done:
			if found.err != nil {
				return nil, found.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return d.cluster.MasterForKey(ctx, key)
}

// search is a question for a cluster's nodes.
type search struct {
	done chan struct{} // closed when there is an answer
	err  error
}

// findNodes has the cluster client find its nodes, or joins those who wait for that.
func (d *Driver) findNodes(key string) *search {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.search != nil {
		return d.search
	}
	s := &search{done: make(chan struct{})}
	d.search = s
	go func() { // ends by the client's timeouts
		defer close(s.done)
		_, s.err = d.cluster.MasterForKey(context.Background(), key)
		d.nodesKnown.Store(s.err == nil)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.search = nil
	}()
	return s
}

// add queues a call, and sees to it that somebody sends it.
func (g *gatherer) add(s *sending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.gatherer, s.place = g, g.queue.PushBack(s)
	g.rouse()
}

// rouse wakes or starts a worker, if there ought to be one more. mu is held.
func (g *gatherer) rouse() {
	switch {
	case g.idle > 0:
		g.idle--
		g.work <- struct{}{}
	case g.workers < fewWorkers || g.workers < maxWorkers && g.isFar():
		g.workers++
		go g.run()
	}
}

// isFar reports whether small pipelines have been on their way for long. mu is held.
func (g *gatherer) isFar() bool {
	calls, oldest := 0, time.Now()
	for b := range g.flying {
		calls += len(b.calls)
		if b.since.Before(oldest) {
			oldest = b.since
		}
	}
	return time.Since(oldest) > longWay && calls < fewCalls*g.workers
}

// run is a worker. It lives for as long as there are calls, and a little longer.
func (g *gatherer) run() {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		if b := g.take(); b != nil {
			g.send(b.calls)
			if !g.land(b) {
				return
			}
			continue
		}
		timer.Reset(linger)
		select {
		case <-g.work:
		case <-timer.C:
			if g.end() {
				return
			}
			<-g.work // it was woken in that instant
		}
	}
}

// take returns the calls to send next; nil if there are none, and the worker is idle.
func (g *gatherer) take() *batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queue.Len() == 0 {
		g.idle++
		return nil
	}
	b := &batch{since: time.Now()}
	for g.queue.Len() > 0 && len(b.calls) < maxGathered {
		s := g.queue.Remove(g.queue.Front()).(*sending) //nolint:forcetypeassert // the queue holds nothing else
		s.batch = b
		b.calls = append(b.calls, s)
	}
	b.live = len(b.calls)
	g.flying[b] = struct{}{}
	return b
}

// land ends a batch. It reports false if the worker does not count any more.
func (g *gatherer) land(b *batch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, counts := g.flying[b]
	delete(g.flying, b)
	if !counts && g.workers == 0 {
		g.driver.forget(g)
	}
	return counts
}

// leave is told that nobody waits for a call any more. It reports whether the call will
// not be sent.
func (g *gatherer) leave(s *sending) (withdrawn bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := s.batch
	if b == nil {
		g.queue.Remove(s.place)
		return true
	}
	b.live--
	if _, counts := g.flying[b]; b.live > 0 || !counts {
		return false
	}
	delete(g.flying, b)
	g.workers--
	if g.queue.Len() > 0 {
		g.rouse()
	}
	return false
}

// end ends an idle worker, unless it has been woken.
func (g *gatherer) end() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == 0 {
		return false
	}
	g.idle--
	g.workers--
	if g.workers == 0 {
		g.driver.forget(g)
	}
	return true
}

// forget drops the gatherer of a node that nobody has asked lately: nodes come and go.
func (d *Driver) forget(g *gatherer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if node, ok := g.node.(*redis.Client); ok && d.nodes[node] == g {
		delete(d.nodes, node)
	}
}

// send sends calls, and those again whose script the server does not have.
func (g *gatherer) send(batch []*sending) {
	g.exec(batch)
	unknown := slices.DeleteFunc(batch, func(s *sending) bool {
		switch {
		case s.failedWith("NOSCRIPT") && !s.withSource:
			return false
		case g.driver.cluster != nil && (s.failedWith("MOVED") || s.failedWith("ASK")):
			go g.driver.redirected(s)
		default:
			g.driver.reloadNodes(context.Background(), s.failure)
			s.finish()
		}
		return true
	})
	if len(unknown) == 0 {
		return
	}
	for _, s := range unknown {
		s.withSource = true
	}
	g.send(unknown)
}

// redirected sends a call alone, which the node has refused: the cluster client follows.
func (d *Driver) redirected(s *sending) {
	s.over(d.rdb)
	if s.failedWith("NOSCRIPT") {
		s.withSource = true
		s.over(d.rdb)
	}
	d.reloadNodes(context.Background(), s.failure)
	s.finish()
}

// exec sends calls once.
func (g *gatherer) exec(batch []*sending) {
	if len(batch) == 1 {
		batch[0].over(g.client)
		return
	}
	pipe := g.client.Pipeline()
	for _, s := range batch {
		s.prepare()
		_ = pipe.Process(context.Background(), s.cmd) // only queues
	}
	_, err := pipe.Exec(context.Background())
	for _, s := range batch {
		if s.cmd.answered || s.cmd.Err() != nil {
			s.read(s.cmd.Err())
		} else {
			s.read(err)
		}
	}
}

// sending is a call on its way. What is not guarded belongs to the goroutine that sends it,
// until finish.
type sending struct {
	call       driver.Call
	withSource bool // the server does not have the script
	cmd        *answeredCmd
	text       *scriptText
	failure    error // of the last command, as go-redis says it

	// Guarded by gatherer.mu.
	gatherer *gatherer
	place    *list.Element // in the queue
	batch    *batch        // that it was taken into; nil: it is in the queue

	mu       sync.Mutex
	deserted bool
	done     chan struct{} // closed when the rest is set
	reply    any
	err      error
}

// await waits for the reply, and leaves when ctx ends.
func (s *sending) await(ctx context.Context) (any, error) {
	select {
	case <-s.done:
		return s.reply, s.err
	case <-ctx.Done():
	}
	if s.gatherer.leave(s) {
		return nil, driver.ConnectionError(ctx.Err(), true)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		return s.reply, s.err
	default:
	}
	s.deserted = true
	err := driver.ConnectionError(ctx.Err(), false)
	err.Pending = s.call.Late != nil
	return nil, err
}

// prepare makes a new command.
func (s *sending) prepare() {
	name, text := "evalsha", s.call.Script.SHA()
	if s.withSource {
		name, text = "eval", s.call.Script.Source()
	}
	cmd, body := command(context.Background(), name, text, s.call)
	s.cmd, s.text = &answeredCmd{onceCmd: cmd}, body
}

// over sends it once, alone.
func (s *sending) over(client redis.UniversalClient) {
	s.prepare()
	s.read(client.Process(context.Background(), s.cmd))
}

// read notes what came of the command.
func (s *sending) read(err error) {
	s.failure = err
	s.reply, s.err = result(s.cmd.onceCmd, err, s.text)
}

// failedWith reports whether the server has refused it with a word.
func (s *sending) failedWith(word string) bool {
	return s.failure != nil && redis.HasErrorPrefix(s.failure, word) && !errors.Is(s.failure, redis.Nil)
}

// finish hands over what came of it.
func (s *sending) finish() {
	s.mu.Lock()
	left := s.deserted
	close(s.done)
	s.mu.Unlock()
	if left && s.call.Late != nil {
		s.call.Late(s.reply, s.err)
	}
}
