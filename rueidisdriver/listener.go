package rueidisdriver

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/driverkit"
)

// closeLimit is how long Close waits for goroutines that rueidis does not let go.
const closeLimit = 800 * time.Millisecond

// listener keeps the subscriptions and assigns them to connections. The package
// comment says which goroutine does what.
type listener struct {
	driver     *Driver
	sink       func(driver.Event)
	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	wake       chan struct{} // tells the assigner that there are unassigned subscriptions
	goroutines sync.WaitGroup
	slots      slotTable // the assigner's own

	mu            sync.Mutex // guards what follows, the subscriptions, and some fields of the connections
	closed        bool
	subscriptions map[string]*subscription // by channel: those that are wanted or have a connection
	unassigned    []*subscription          // to be assigned now
	postponed     []postponed              // to be assigned later
	moved         bool                     // the slots may have other owners
	conns         map[string]*conn         // by address
}

// subscription is what is wanted of one channel, and where. It is either unassigned, and
// wanted, or has a connection.
type subscription struct {
	channel  string
	conn     *conn // nil while unassigned
	wanted   bool
	queued   bool  // in the connection's queue
	failures uint8 // since the last confirmation
}

// Listen returns a listener that uses one connection, or one for each primary of a
// cluster with sharded pub/sub.
func (d *Driver) Listen(sink func(driver.Event)) driver.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{
		driver:        d,
		sink:          sink,
		ctx:           ctx,
		cancel:        cancel,
		wake:          make(chan struct{}, 1),
		subscriptions: make(map[string]*subscription),
		moved:         true,
		conns:         make(map[string]*conn),
	}
	l.goroutines.Go(l.run)
	return l
}

// Subscribe adds a channel to those that are wanted.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subscriptions[channel]
	switch {
	case l.closed:
	case s == nil:
		s = &subscription{channel: channel, wanted: true}
		l.subscriptions[channel] = s
		l.unassigned = append(l.unassigned, s)
		driverkit.Notify(l.wake)
	case !s.wanted:
		s.wanted = true
		s.conn.enqueue(s)
	}
}

// Unsubscribe removes a channel from those that are wanted.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subscriptions[channel]
	if l.closed || s == nil || !s.wanted {
		return
	}
	s.wanted = false
	if s.conn == nil {
		delete(l.subscriptions, channel)
		return
	}
	s.conn.enqueue(s)
}

// Close ends all subscriptions and waits for the goroutines.
func (l *listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	ended := make(chan struct{})
	go func() { // ends with those that it waits for
		defer close(ended)
		l.goroutines.Wait()
	}()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
	}
}
