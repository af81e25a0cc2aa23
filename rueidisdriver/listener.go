package rueidisdriver

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// listener keeps the wishes. The package comment says which goroutine does what.
type listener struct {
	driver *Driver
	sink   func(driver.Event)
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the seats
	closed bool
	seats  map[string]*seat // the channels that have a goroutine
}

// seat is a channel that is wished for, or was until a moment ago.
type seat struct {
	wanted    bool
	confirmed bool               // by the server, in this round
	stop      context.CancelFunc // ends this round; nil before the first; only begin sets it
}

// Listen returns a listener that uses the client's own connections.
func (d *Driver) Listen(sink func(driver.Event)) driver.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &listener{driver: d, sink: sink, ctx: ctx, cancel: cancel, seats: make(map[string]*seat)}
}

// Subscribe wishes for a channel.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if s := l.seats[channel]; s != nil {
		s.wanted = true // if it was not, the goroutine goes round once more
		return
	}
	s := &seat{wanted: true}
	l.seats[channel] = s
	l.work.Go(func() { l.keep(channel, s) })
}

// Unsubscribe takes a wish back.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.seats[channel]
	if s == nil {
		return
	}
	s.wanted = false
	if s.stop != nil {
		s.stop()
	}
}

// Close ends all subscriptions and waits for the goroutines.
func (l *listener) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
}

// begin returns the context of the next round, or false if the channel is not
// wished for any more. Then the seat is gone, and the goroutine must end.
func (l *listener) begin(channel string, s *seat) (context.Context, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !s.wanted {
		delete(l.seats, channel)
		return nil, false
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(l.ctx)
	s.confirmed = false
	return ctx, true
}

// confirmed reports whether the server has confirmed the subscription in this
// round.
func (l *listener) confirmed(s *seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.confirmed
}

// wants reports whether a channel's events are to be delivered.
func (l *listener) wants(s *seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.wanted
}

// confirm notes a confirmation, and reports whether it is to be delivered.
func (l *listener) confirm(s *seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.confirmed = true
	return s.wanted
}
