package wakeup

import (
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// Hub shares one listener. Use [New].
type Hub struct {
	listener driver.Listener

	mu       sync.Mutex
	channels map[string]*channel
}

type channel struct {
	confirmed     bool
	subscriptions map[*Subscription]struct{}
}

// Subscription is one party's interest in a channel.
type Subscription struct {
	hub    *Hub
	name   string
	notify func()
}

// New returns a hub on a listener of its own, which listen makes.
func New(listen func(sink func(driver.Event)) driver.Listener) *Hub {
	h := &Hub{channels: map[string]*channel{}}
	h.listener = listen(h.deliver)
	return h
}

// Join subscribes to a channel. notify is called for every message and every
// confirmed subscription, and at once if the channel is subscribed already:
// what has happened until then is not known to the one who joins.
func (h *Hub) Join(name string, notify func()) *Subscription {
	s := &Subscription{hub: h, name: name, notify: notify}
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	if ch == nil {
		ch = &channel{subscriptions: map[*Subscription]struct{}{}}
		h.channels[name] = ch
		h.listener.Subscribe(name)
	}
	ch.subscriptions[s] = struct{}{}
	if ch.confirmed {
		notify()
	}
	return s
}

// Leave ends the subscription. Leaving twice is leaving once.
func (s *Subscription) Leave() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[s.name]
	if ch == nil {
		return
	}
	if _, there := ch.subscriptions[s]; !there {
		return
	}
	delete(ch.subscriptions, s)
	if len(ch.subscriptions) == 0 {
		delete(h.channels, s.name)
		h.listener.Unsubscribe(s.name)
	}
}

// Close closes the listener. Nobody is notified afterwards.
func (h *Hub) Close() { h.listener.Close() }

func (h *Hub) deliver(e driver.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[e.Channel]
	if ch == nil {
		return
	}
	if e.Kind == driver.Subscribed {
		ch.confirmed = true
	}
	for s := range ch.subscriptions {
		s.notify()
	}
}
