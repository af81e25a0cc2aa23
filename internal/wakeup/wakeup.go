package wakeup

import (
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// Hub shares one listener. Use [New].
type Hub struct {
	listener driver.Listener
	acquired string // the payload that says that others have what was released

	mu       sync.Mutex
	channels map[string]*Subscription // one of each channel's
}

// Party is told that something may have changed.
type Party interface {
	Notify()
	// NotifyAcquired says that others have got what was released last.
	NotifyAcquired()
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

// New returns a hub on a listener of its own, which listen makes. A message with the payload acquired says that others have got
// what was released; every other one, that something may have changed.
func New(listen func(sink func(driver.Event)) driver.Listener, acquired string) *Hub {
	h := &Hub{channels: map[string]*Subscription{}, acquired: acquired}
	h.listener = listen(h.deliver)
	return h
}

// Join subscribes to a channel. The party is notified of every message and every
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
		party.Notify()
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

// Close closes the listener. Nobody is notified afterwards.
func (h *Hub) Close() { h.listener.Close() }

func (h *Hub) deliver(e driver.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.channels[e.Channel]
	for s := first; s != nil; {
		s.confirmed = s.confirmed || e.Kind == driver.Subscribed
		if e.Kind == driver.Message && e.Payload == h.acquired {
			s.party.NotifyAcquired()
		} else {
			s.party.Notify()
		}
		if s = s.next; s == first {
			return
		}
	}
}
