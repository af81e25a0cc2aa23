package goredisdriver

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// listener keeps the subscriptions and assigns them to connections. The package
// comment says which goroutine does what.
type listener struct {
	driver     *Driver
	sink       func(driver.Event)
	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	wake       chan struct{} // tells the assigner that a subscription has no connection
	goroutines sync.WaitGroup

	mu     sync.Mutex // guards what follows, and some fields of the connections
	closed bool
	// wanted are the channels that are wanted, whether a server has confirmed them or not,
	// and the connection that each is assigned to; nil: none yet.
	wanted     map[string]*conn
	unassigned map[string]struct{} // those without a connection
	failures   map[string]failure  // of those that have failed since the last confirmation
	conns      map[any]*conn       // by server.key
}

// failure is what there is to know of a subscription that has failed.
type failure struct {
	times     int       // since the last confirmation
	notBefore time.Time // when it may be assigned
}

// server is where a channel is to be subscribed.
type server struct {
	key     any // equal for the same node
	sharded bool
	open    func(context.Context, ...string) *redis.PubSub // no I/O without channels
}

// Listen returns a listener that uses one connection, or one for each primary
// of a cluster with sharded pub/sub.
func (d *Driver) Listen(sink func(driver.Event)) driver.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{
		driver:     d,
		sink:       sink,
		ctx:        ctx,
		cancel:     cancel,
		wake:       make(chan struct{}, 1),
		wanted:     make(map[string]*conn),
		unassigned: make(map[string]struct{}),
		failures:   make(map[string]failure),
		conns:      make(map[any]*conn),
	}
	l.goroutines.Go(l.run)
	return l
}

// Subscribe adds a channel to those that are wanted.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, wanted := l.wanted[channel]; l.closed || wanted {
		return
	}
	l.unassign(channel)
	driverkit.Notify(l.wake)
}

// Unsubscribe removes a channel from those that are wanted.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, wanted := l.wanted[channel]
	if l.closed || !wanted {
		return
	}
	delete(l.wanted, channel)
	delete(l.unassigned, channel)
	delete(l.failures, channel)
	if c != nil {
		c.assigned--
		c.unsubscribe(channel)
	}
}

// unassign notes that a channel is wanted, and has no connection. The caller holds mu.
func (l *listener) unassign(channel string) {
	if c := l.wanted[channel]; c != nil {
		c.assigned--
	}
	l.wanted[channel] = nil
	l.unassigned[channel] = struct{}{}
}

// Close ends all subscriptions and waits for the goroutines.
func (l *listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.goroutines.Wait()
}

// run is the assigner.
func (l *listener) run() { driverkit.RunAssigner(l.ctx, l.wake, l.due, l.assignAll) }

// due returns the unassigned channels whose time has come and, if there are
// none, how long it is until there may be one.
func (l *listener) due() (channels []string, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause = time.Hour
	if l.closed {
		return nil, pause
	}
	for channel := range l.unassigned {
		wait := time.Until(l.failures[channel].notBefore)
		if wait <= 0 {
			channels = append(channels, channel)
		}
		pause = min(pause, wait)
	}
	return channels, pause
}

func (l *listener) assignAll(channels []string) {
	for i, channel := range channels {
		at, err := l.driver.serverOf(l.ctx, channel)
		if err != nil {
			// No node could say which one owns the slot. The others would wait for
			// the same answer, so all of them try again later.
			l.mu.Lock()
			l.postpone(channels[i:])
			l.mu.Unlock()
			return
		}
		l.assign(channel, at)
	}
}

// serverOf returns where a channel is to be subscribed.
func (d *Driver) serverOf(ctx context.Context, channel string) (server, error) {
	command, err := d.PublishCommand(ctx)
	switch {
	case err != nil:
		return server{}, err
	case command == publish:
		return server{key: publish, open: d.rdb.Subscribe}, nil
	case d.cluster == nil:
		return server{key: spublish, sharded: true, open: d.rdb.SSubscribe}, nil
	}
	node, err := d.cluster.MasterForKey(ctx, channel)
	if err != nil {
		return server{}, err
	}
	return server{key: node, sharded: true, open: node.SSubscribe}, nil
}

// assign gives a subscription its connection, and makes that if there is none.
func (l *listener) assign(channel string, at server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, unassigned := l.unassigned[channel]; !unassigned || l.closed {
		return
	}
	c := l.conns[at.key]
	if c == nil {
		c = newConn(l, at)
		l.conns[at.key] = c
		l.goroutines.Go(c.run)
	}
	delete(l.unassigned, channel)
	l.wanted[channel] = c
	c.assigned++
	c.subscribe(channel)
}

// postpone takes subscriptions from their connections, to be assigned again after
// a pause that grows with the number of failures. The caller holds mu.
func (l *listener) postpone(channels []string) {
	jitter := driverkit.Jitter()
	for _, channel := range channels {
		if _, wanted := l.wanted[channel]; !wanted {
			continue
		}
		l.unassign(channel)
		times := l.failures[channel].times
		l.failures[channel] = failure{times + 1, time.Now().Add(driverkit.Backoff(times, jitter))}
	}
	if l.driver.cluster != nil {
		l.driver.cluster.ReloadState(l.ctx) // returns at once
	}
	driverkit.Notify(l.wake)
}
