package wakeup

import (
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// Hub shares one listener. Use [New].
type Hub struct {
	listener driver.Listener

	mu       sync.Mutex
	channels map[string]*Subscription // one of each channel's
}

// Party is told that something may have changed.
type Party interface {
	// Hear is told of a message, or, with an empty payload, that the channel is subscribed to, perhaps anew. It does not block.
	Hear(payload string)
}

// Subscription is one party's interest in a channel.
type Subscription struct {
	hub   *Hub
	name  string
	party Party

	// The subscriptions of a channel are a ring. These are nil after Leave.
	prev, next *Subscription
	confirmed  bool // the server has confirmed that the channel is subscribed to
}

// New returns a hub on a listener of its own, which listen makes.
func New(listen func(sink func(driver.Event)) driver.Listener) *Hub {
	h := &Hub{channels: map[string]*Subscription{}}
	h.listener = listen(h.deliver)
	return h
}

// Join subscribes to a channel. The party hears of every message and every
// confirmed subscription, and at once if the channel is subscribed already:
// what has happened until then is not known to the one who joins.
func (h *Hub) Join(name string, party Party) *Subscription {
	s := &Subscription{hub: h, name: name, party: party}
	s.prev, s.next = s, s
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.channels[name]
	if first == nil {
		h.channels[name] = s
		h.listener.Subscribe(name)
		return s
	}
	s.prev, s.next, s.confirmed = first.prev, first, first.confirmed
	s.prev.next, s.next.prev = s, s
	if s.confirmed {
		party.Hear("")
	}
	return s
}

// Leave ends the subscription. Leaving twice is leaving once.
func (s *Subscription) Leave() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s.next {
	case nil: // it has left before
	case s:
		delete(h.channels, s.name)
		h.listener.Unsubscribe(s.name)
	default:
		s.prev.next, s.next.prev = s.next, s.prev
		h.channels[s.name] = s.next
	}
	s.prev, s.next = nil, nil
}

// Close closes the listener. Nobody hears anything afterwards.
func (h *Hub) Close() { h.listener.Close() }

func (h *Hub) deliver(e driver.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.channels[e.Channel]
	if e.Kind == driver.Subscribed {
		e.Payload = ""
	}
	for s := first; s != nil; {
		s.confirmed = s.confirmed || e.Kind == driver.Subscribed
		s.party.Hear(e.Payload)
		if s = s.next; s == first {
			return
		}
	}
}
