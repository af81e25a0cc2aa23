package rueidisdriver

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// listener keeps the subscriptions. The package comment says which goroutine does
// what.
type listener struct {
	driver     *Driver
	sink       func(driver.Event)
	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu            sync.Mutex // guards what follows, and the subscriptions
	closed        bool
	subscriptions map[string]*subscription // by channel; each has a goroutine
}

// subscription is one that is wanted, or was until a moment ago.
type subscription struct {
	wanted    bool
	confirmed bool               // by the server, in this round
	stop      context.CancelFunc // ends this round; nil before the first; only beginRound sets it
}

// Listen returns a listener that uses the client's own connections.
func (d *Driver) Listen(sink func(driver.Event)) driver.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &listener{driver: d, sink: sink, ctx: ctx, cancel: cancel, subscriptions: make(map[string]*subscription)}
}

// Subscribe adds a channel to those that are wanted.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if s := l.subscriptions[channel]; s != nil {
		s.wanted = true // if it was not, the goroutine begins another round
		return
	}
	s := &subscription{wanted: true}
	l.subscriptions[channel] = s
	l.goroutines.Go(func() { l.maintain(channel, s) })
}

// Unsubscribe removes a channel from those that are wanted.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.subscriptions[channel]
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
	l.goroutines.Wait()
}

// beginRound returns the context of the next round, or false if the channel is not
// wanted any more. Then the subscription is gone, and the goroutine must end.
func (l *listener) beginRound(channel string, s *subscription) (context.Context, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !s.wanted {
		delete(l.subscriptions, channel)
		return nil, false
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(l.ctx)
	s.confirmed = false
	return ctx, true
}

// confirmed reports whether the server has confirmed the subscription in this
// round.
func (l *listener) confirmed(s *subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.confirmed
}

// wants reports whether a channel's events are to be delivered.
func (l *listener) wants(s *subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.wanted
}

// confirm notes a confirmation, and reports whether it is to be delivered.
func (l *listener) confirm(s *subscription) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.confirmed = true
	return s.wanted
}
