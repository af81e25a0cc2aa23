package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/waiting"
	"github.com/holdfast-go/holdfast/internal/wakeup"
)

const (
	// unlistedFor is how long a client sends requests without an ID after Redis has twice dropped it from a waitlist, because it
	// does not receive its messages.
	unlistedFor = 10 * time.Second
	// idleChannels is the number of channels above which those without a waiter are unsubscribed from.
	idleChannels = 64
	// unclaimed is how many messages are kept for waiters that have not read the reply to their request yet, and longestMessage
	// how long one is at most.
	unclaimed, longestMessage = 256, 64
)

// mail receives what Redis publishes to this client's waiters, and puts each message into the box of its waiter. It is called by
// waiters, and by the hub with messages and subscriptions. It calls no waiter and, with mu held, no hub.
type mail struct {
	client    string
	sharded   func() bool // whether each lock has a grant channel of its own
	subscribe func(channel string, party wakeup.Party) *wakeup.Subscription
	receives  atomic.Bool // there is a channel

	mu       sync.Mutex // guards what follows, and what is put into boxes
	channels map[string]*grantChannel
	requests map[string]addressee        // by [protocol.AskName]
	early    map[string]protocol.Message // those that came before the reply, by their Number: of a grant all of it, else the name
	order    [unclaimed]string           // the keys of early, the oldest at next
	next     int
}

// grantChannel is a channel on which the client receives grants.
type grantChannel struct {
	mail          *mail
	subscription  *wakeup.Subscription // nil before it has been made
	subscribed    bool
	unlistedUntil mono.Time // it counts as not subscribed until then
	waiting       map[box]func()
}

// addressee is whose a request is, and its whole ID, which only a grant has.
type addressee struct {
	box box
	id  string
}

// box holds the last message for one waiter that the waiter has not taken. A grant is replaced by another grant only.
type box chan protocol.Message

// put leaves a message about a request in the box. A retry message gets the request's whole ID; a grant has it, unless it is forged.
// mail.mu is held, so nobody else puts one.
func (b box) put(id string, m protocol.Message) {
	if !m.Granted {
		m.Number = id
	}
	select {
	case old := <-b:
		if old.Granted && !m.Granted {
			m = old
		}
	default:
	}
	b <- m
}

// remove takes a message about a request out of the box. mail.mu is held.
func (b box) remove(id string) {
	select {
	case m := <-b:
		if protocol.AskName(m.Number) != protocol.AskName(id) {
			b <- m
		}
	default:
	}
}

func newMail(client string, sharded func() bool, subscribe func(string, wakeup.Party) *wakeup.Subscription) mail {
	return mail{
		client: client, sharded: sharded, subscribe: subscribe,
		channels: map[string]*grantChannel{}, requests: map[string]addressee{}, early: map[string]protocol.Message{},
	}
}

// reaches reports whether the client receives a message that it was granted the lock.
func (m *mail) reaches(lock *Lock) bool {
	if !m.receives.Load() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.channels[m.channelOf(lock)]
	return c != nil && c.subscribed && c.unlistedUntil < mono.Now()
}

// channelOf returns the channel on which the client receives grants of the lock.
func (m *mail) channelOf(lock *Lock) string {
	return protocol.GrantChannel(m.client, lock.Name, m.sharded())
}

// join subscribes to the lock's grant channel for a waiter, unless that was done for another. Wake is called when the
// subscription begins, or begins again: messages may have been lost.
func (m *mail) join(lock *Lock, b box, wake func()) *grantChannel {
	name := m.channelOf(lock)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.channels[name]
	if c == nil {
		idle := m.idle()
		c = &grantChannel{mail: m, waiting: map[box]func(){b: wake}}
		m.channels[name] = c
		m.receives.Store(true)
		m.mu.Unlock() // the hub has a mutex of its own, also when it calls Hear
		for _, each := range idle {
			each.Leave()
		}
		subscription := m.subscribe(name, c)
		m.mu.Lock()
		c.subscription = subscription
	}
	c.waiting[b] = wake
	return c
}

// idle takes out the channels without a waiter, if they are too many. mu is held.
func (m *mail) idle() (idle []*wakeup.Subscription) {
	if len(m.channels) <= idleChannels {
		return nil
	}
	for name, c := range m.channels {
		if len(c.waiting) == 0 && c.subscription != nil {
			delete(m.channels, name)
			idle = append(idle, c.subscription)
		}
	}
	return idle
}

// expect has messages about a request put into a box, also one that has come already.
func (m *mail) expect(b box, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := protocol.AskName(id)
	m.requests[name] = addressee{b, id}
	for _, number := range []string{name, id} {
		if message, came := m.early[number]; came {
			delete(m.early, number)
			b.put(id, message)
		}
	}
}

// forget has no more messages about requests put into a box, and removes one that is in it.
func (m *mail) forget(b box, requests []waiting.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range requests {
		delete(m.requests, protocol.AskName(r.ID))
		b.remove(r.ID)
	}
}

// leave ends what join has begun.
func (c *grantChannel) leave(b box) {
	c.mail.mu.Lock()
	defer c.mail.mu.Unlock()
	delete(c.waiting, b)
}

// doubt has the client count as not subscribed for a while.
func (c *grantChannel) doubt() {
	c.mail.mu.Lock()
	defer c.mail.mu.Unlock()
	c.unlistedUntil = mono.Now().Add(unlistedFor)
}

// Hear is called by the hub: with a message, or with nothing when the channel is subscribed to, perhaps again.
func (c *grantChannel) Hear(payload string) {
	m := c.mail
	m.mu.Lock()
	defer m.mu.Unlock()
	if payload == "" {
		c.subscribed = true
		for _, wake := range c.waiting {
			wake()
		}
		return
	}
	message, ok := protocol.ReadMessage(payload)
	if !ok || len(payload) > longestMessage {
		return // no client of this library has published it
	}
	if to, found := m.requests[protocol.AskName(message.Number)]; found {
		if !message.Granted || message.Number == to.id { // else it is forged: the name is known, the rest is not
			to.box.put(to.id, message)
		}
		return
	}
	delete(m.early, m.order[m.next])
	m.early[message.Number], m.order[m.next] = message, message.Number
	m.next = (m.next + 1) % unclaimed
}
