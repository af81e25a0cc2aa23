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
	confirmed bool
	seats     map[*Seat]struct{}
}

// Seat is one party's interest in a channel.
type Seat struct {
	hub  *Hub
	name string
	ring func()
}

// New returns a hub on a listener of its own, which listen makes.
func New(listen func(sink func(driver.Event)) driver.Listener) *Hub {
	h := &Hub{channels: map[string]*channel{}}
	h.listener = listen(h.deliver)
	return h
}

// Join takes a seat at a channel. ring is called for every message and every
// confirmed subscription, and at once if the channel is subscribed already:
// what has happened until then is not known to the one who joins.
func (h *Hub) Join(name string, ring func()) *Seat {
	s := &Seat{hub: h, name: name, ring: ring}
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[name]
	if ch == nil {
		ch = &channel{seats: map[*Seat]struct{}{}}
		h.channels[name] = ch
		h.listener.Subscribe(name)
	}
	ch.seats[s] = struct{}{}
	if ch.confirmed {
		ring()
	}
	return s
}

// Leave gives the seat up. Leaving twice is leaving once.
func (s *Seat) Leave() {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[s.name]
	if ch == nil {
		return
	}
	if _, sits := ch.seats[s]; !sits {
		return
	}
	delete(ch.seats, s)
	if len(ch.seats) == 0 {
		delete(h.channels, s.name)
		h.listener.Unsubscribe(s.name)
	}
}

// Close closes the listener. Nobody is rung afterwards.
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
	for s := range ch.seats {
		s.ring()
	}
}
