package memdriver

import (
	"maps"
	"sync"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/driver"
)

// listener keeps a miniredis subscriber in line with what is wanted.
//
// Publishing blocks miniredis until the message is read, so neither the reader
// nor a caller of Subscribe may wait for miniredis: only apply does.
type listener struct {
	driver     *Driver
	sink       func(driver.Event)
	subscriber *miniredis.Subscriber

	mu     sync.Mutex
	wanted map[string]bool // false: subscribed, and no longer wanted
	fresh  map[string]bool // wanted, and to be confirmed
	closed bool

	wake           chan struct{} // capacity 1: there is something to apply
	applied, heard process
}

// process is a goroutine that can be stopped and waited for.
type process struct {
	stop chan struct{}
	wg   sync.WaitGroup
}

func (p *process) end() {
	close(p.stop)
	p.wg.Wait()
}

// Listen returns a new listener.
func (d *Driver) Listen(sink func(driver.Event)) driver.Listener {
	return &listener{
		driver: d, sink: sink,
		wanted: map[string]bool{}, fresh: map[string]bool{},
		wake:    make(chan struct{}, 1),
		applied: process{stop: make(chan struct{})},
		heard:   process{stop: make(chan struct{})},
	}
}

// Subscribe asks for a channel.
func (l *listener) Subscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.wanted[channel] {
		return
	}
	if l.subscriber == nil {
		l.start()
	}
	l.wanted[channel], l.fresh[channel] = true, true
	l.signal()
}

// Unsubscribe takes that back.
func (l *listener) Unsubscribe(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.wanted[channel] {
		return
	}
	l.wanted[channel] = false
	delete(l.fresh, channel)
	l.signal()
}

// start begins with the first channel wanted. l.mu is held.
func (l *listener) start() {
	l.subscriber = l.driver.server.mini.NewSubscriber()
	l.driver.mu.Lock()
	l.driver.listeners[l] = struct{}{}
	l.driver.mu.Unlock()
	l.applied.wg.Go(l.apply)
	l.heard.wg.Go(l.read)
}

// again has every channel confirmed once more.
func (l *listener) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel, want := range l.wanted {
		if want {
			l.fresh[channel] = true
		}
	}
	l.signal()
}

func (l *listener) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// apply subscribes to what is wanted, and to nothing else.
func (l *listener) apply() {
	for {
		select {
		case <-l.applied.stop:
			return
		case <-l.wake:
		}
		l.mu.Lock()
		wanted, fresh := maps.Clone(l.wanted), l.fresh
		l.fresh = map[string]bool{}
		maps.DeleteFunc(l.wanted, func(_ string, want bool) bool { return !want })
		l.mu.Unlock()
		for channel, want := range wanted {
			switch {
			case !want:
				l.unsubscribe(channel)
			case fresh[channel]:
				l.subscribe(channel)
				l.deliver(driver.Event{Kind: driver.Subscribed, Channel: channel})
			}
		}
	}
}

// subscribe and unsubscribe interrupt no script. They hold miniredis's lock, too, as its own connections
// do: PUBSUB reads the subscribers' channels under that lock alone.
func (l *listener) subscribe(channel string) {
	l.driver.server.executing.Lock()
	defer l.driver.server.executing.Unlock()
	l.driver.server.mini.Lock()
	defer l.driver.server.mini.Unlock()
	l.subscriber.Subscribe(channel)
}

func (l *listener) unsubscribe(channel string) {
	l.driver.server.executing.Lock()
	defer l.driver.server.executing.Unlock()
	l.driver.server.mini.Lock()
	defer l.driver.server.mini.Unlock()
	l.subscriber.Unsubscribe(channel)
}

// read passes messages on.
func (l *listener) read() {
	for {
		select {
		case <-l.heard.stop:
			return
		case m := <-l.subscriber.Messages():
			l.deliver(driver.Event{Kind: driver.Message, Channel: m.Channel, Payload: m.Message})
		}
	}
}

// deliver passes an event on, unless messages are to be lost.
func (l *listener) deliver(e driver.Event) {
	l.driver.mu.Lock()
	lost := l.driver.noMessages
	l.driver.mu.Unlock()
	if !lost {
		l.sink(e)
	}
}

// Close ends all subscriptions.
func (l *listener) Close() {
	l.mu.Lock()
	if l.closed || l.subscriber == nil {
		l.closed = true
		l.mu.Unlock()
		return
	}
	l.closed = true
	l.mu.Unlock()
	l.driver.mu.Lock()
	delete(l.driver.listeners, l)
	l.driver.mu.Unlock()
	// The reader goes last: until nothing is subscribed, publishers wait for it.
	l.applied.end()
	for _, channel := range l.subscriber.Channels() {
		l.unsubscribe(channel)
	}
	l.heard.end()
}
