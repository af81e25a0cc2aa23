package wakeup

import (
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/list"
)

// Hub shares one listener. Use [New].
type Hub struct {
	listener driver.Listener

	mu       sync.Mutex
	channels map[string]*channel
}

// channel is one that somebody has subscribed to.
type channel struct {
	hub           *Hub
	name          string
	confirmed     bool
	subscriptions list.List[*Subscription]
}

// Subscription is one party's interest in a channel.
type Subscription struct {
	channel *channel
	notify  func()

	node list.Node[*Subscription] // of the channel
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
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	if ch == nil {
		ch = &channel{hub: h, name: name}
		h.channels[name] = ch
		h.listener.Subscribe(name)
	}
	s := &Subscription{channel: ch, notify: notify}
	s.node.Value = s
	ch.subscriptions.InsertAfter(&s.node, ch.subscriptions.Last())
	if ch.confirmed {
		notify()
	}
	return s
}

// Leave ends the subscription. Leaving twice is leaving once.
func (s *Subscription) Leave() {
	ch, h := s.channel, s.channel.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	ch.subscriptions.Remove(&s.node)
	if ch.subscriptions.Len() == 0 && h.channels[ch.name] == ch {
		delete(h.channels, ch.name)
		h.listener.Unsubscribe(ch.name)
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
	for n := ch.subscriptions.First(); n != nil; n = n.Next() {
		n.Value.notify()
	}
}
