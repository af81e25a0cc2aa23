package goredisdriver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// maxWorkers is how many pipelines to one node are under way at most. Calls that come
	// meanwhile leave together in the next one.
	maxWorkers = 2
	// maxGathered is how many calls one pipeline has at most.
	maxGathered = 128
	// linger is how long an idle worker waits for a call before it ends.
	linger = 50 * time.Millisecond
)

// gatherer sends calls to one node. Calls that come while its workers are busy travel
// together: one connection, one write, one read.
type gatherer struct {
	driver *Driver
	node   redis.UniversalClient // the node's client, or the only one

	mu      sync.Mutex
	queue   []*sending
	workers int
	idle    int           // how many of them wait
	work    chan struct{} // wakes an idle one; as large as there can be of them
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
	return &gatherer{driver: d, node: node, work: make(chan struct{}, maxWorkers)}
}

// nodeOf returns the client of the node in charge of a call. Before the client knows the
// nodes it asks for them, and does not heed the context.
func (d *Driver) nodeOf(ctx context.Context, call driver.Call) (*redis.Client, error) {
	key := ""
	if len(call.Keys) > 0 {
		key = call.Keys[0]
	}
	if d.nodesKnown.Load() {
		return d.cluster.MasterForKey(ctx, key)
	}
	type answer struct {
		node *redis.Client
		err  error
	}
	found := make(chan answer, 1)
	go func() { // ends by the client's timeouts
		node, err := d.cluster.MasterForKey(context.WithoutCancel(ctx), key)
		found <- answer{node, err}
	}()
	select {
	case a := <-found:
		d.nodesKnown.Store(a.err == nil)
		return a.node, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// add queues a call, and sees to it that somebody sends it.
func (g *gatherer) add(s *sending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queue = append(g.queue, s)
	switch {
	case g.idle > 0:
		g.idle--
		g.work <- struct{}{}
	case g.workers < maxWorkers:
		g.workers++
		go g.run()
	}
}

// run is a worker. It lives for as long as there are calls, and a little longer.
func (g *gatherer) run() {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		batch, idle := g.take()
		if len(batch) > 0 {
			g.send(batch)
		}
		if !idle {
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

// take returns the calls to send next, without those that were withdrawn. If the queue is
// empty, the worker counts as idle.
func (g *gatherer) take() (batch []*sending, idle bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), maxGathered)
	if n == 0 {
		g.idle++
		return nil, true
	}
	batch = slices.Clone(g.queue[:n])
	g.queue = slices.Delete(g.queue, 0, n)
	return slices.DeleteFunc(batch, func(s *sending) bool { return !s.begin() }), false
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
		case s.failedWith("NOSCRIPT"):
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
		batch[0].over(g.node)
		return
	}
	pipe := g.node.Pipeline()
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

// sending is a call on its way. All fields but those that mu guards belong to the worker
// from begin to finish.
type sending struct {
	call       driver.Call
	withSource bool // the server does not have the script
	cmd        *answeredCmd
	text       *scriptText
	failure    error // of the last command, as go-redis says it

	mu    sync.Mutex
	state state
	done  chan struct{} // closed when the rest is set
	reply any
	err   error
}

// state is how far a call has come.
type state int

const (
	queued    state = iota
	withdrawn       // by its caller, before anybody sent it
	sent
	deserted // by its caller, after that
	finished
)

// await waits for the reply, and leaves when ctx ends.
func (s *sending) await(ctx context.Context) (any, error) {
	select {
	case <-s.done:
		return s.reply, s.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case finished:
		return s.reply, s.err
	case queued:
		s.state = withdrawn
		return nil, driver.ConnectionError(ctx.Err(), true)
	default:
		s.state = deserted
		err := driver.ConnectionError(ctx.Err(), false)
		err.Pending = s.call.Late != nil
		return nil, err
	}
}

// begin takes a call to send it. It reports false if its caller has withdrawn it.
func (s *sending) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == withdrawn {
		return false
	}
	s.state = sent
	return true
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
	left := s.state == deserted
	s.state = finished
	close(s.done)
	s.mu.Unlock()
	if left && s.call.Late != nil {
		s.call.Late(s.reply, s.err)
	}
}
