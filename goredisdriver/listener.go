package goredisdriver

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
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

	mu            sync.Mutex // guards what follows, and some fields of the connections
	closed        bool
	subscriptions map[string]*subscription // by channel
	unassigned    map[string]*subscription // those without a connection
	conns         map[any]*conn            // by server.key
}

// subscription is one that is wanted, whether the server has confirmed it or not.
type subscription struct {
	conn      *conn     // nil while unassigned
	failures  int       // since the last confirmation
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
		driver:        d,
		sink:          sink,
		ctx:           ctx,
		cancel:        cancel,
		wake:          make(chan struct{}, 1),
		subscriptions: make(map[string]*subscription),
		unassigned:    make(map[string]*subscription),
		conns:         make(map[any]*conn),
	}
	l.goroutines.Go(l.run)
	return l
}

// Subscribe adds a channel to those that are wanted.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.subscriptions[channel] != nil {
		return
	}
	s := new(subscription)
	l.subscriptions[channel] = s
	l.unassigned[channel] = s
	notify(l.wake)
}

// Unsubscribe removes a channel from those that are wanted.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subscriptions[channel]
	if l.closed || s == nil {
		return
	}
	delete(l.subscriptions, channel)
	delete(l.unassigned, channel)
	if s.conn != nil {
		s.conn.unsubscribe(channel)
	}
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
func (l *listener) run() {
	for {
		due, pause := l.due()
		if len(due) > 0 {
			l.assignAll(due)
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-l.wake:
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// due returns the unassigned channels whose time has come and, if there are
// none, how long it is until there may be one.
func (l *listener) due() (channels []string, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause = time.Hour
	if l.closed {
		return nil, pause
	}
	for channel, s := range l.unassigned {
		wait := time.Until(s.notBefore)
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
	s := l.unassigned[channel]
	if s == nil || l.closed {
		return
	}
	c := l.conns[at.key]
	if c == nil {
		c = newConn(l, at)
		l.conns[at.key] = c
		l.goroutines.Go(c.run)
	}
	delete(l.unassigned, channel)
	s.conn = c
	c.subscribe(channel)
}

// postpone takes subscriptions from their connections, to be assigned again after
// a pause that grows with the number of failures. The caller holds mu.
func (l *listener) postpone(channels []string) {
	spread := 0.5 + rand.Float64()/2 //nolint:gosec // spreads reconnections, guards nothing
	for _, channel := range channels {
		s := l.subscriptions[channel]
		if s == nil {
			continue
		}
		pause := min(firstPause<<min(s.failures, 10), lastPause)
		s.failures++
		s.conn = nil
		s.notBefore = time.Now().Add(time.Duration(float64(pause) * spread))
		l.unassigned[channel] = s
	}
	if l.driver.cluster != nil {
		l.driver.cluster.ReloadState(l.ctx) // returns at once
	}
	notify(l.wake)
}

// The pauses between attempts to subscribe.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// notify wakes a goroutine, which then looks at all that there is to do.
func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it has been notified already
	}
}
