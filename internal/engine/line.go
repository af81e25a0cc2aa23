package engine

import (
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/wakeup"
)

// This file is about the line in Redis as one client sees it: see "The line" in the package's documentation. What Redis does is in
// protocol/lua/line.lua, rw.lua, permits.lua and fair.lua, and why in docs/internals/protocol.md, "The line".

const (
	// outsideFor is for how long a client stands outside that was dropped from a line since it did not listen, as Redis says.
	outsideFor = 10 * time.Second
	// idleChannels is from how many channels on those are left on which nobody waits.
	idleChannels = 64
	// unclaimed is how many messages are kept for those who have not read the answer to their ask yet, and longestMessage how long
	// one is at most.
	unclaimed, longestMessage = 256, 64
)

// line is what a client hears of lines.
type line struct {
	engine *Engine
	common string      // the channel of all locks, unless messages belong to shards
	listen atomic.Bool // there is a channel

	mu       sync.Mutex // guards what follows, the channels, and place.message
	channels map[string]*grants
	asks     map[string]asked            // what those who stand in line have asked, by [protocol.AskName]
	early    map[string]protocol.Message // those that nobody was waiting for, by their Number: of a grant all of it, else the name
	order    [unclaimed]string           // the keys of early, the oldest at next
	next     int
}

// grants is the channel where the client hears that it was granted a lock: any one, or, if messages belong to a shard, a certain one.
type grants struct {
	line         *line
	subscription *wakeup.Subscription // nil before it has been made
	confirmed    bool
	outsideUntil mono.Time // it counts as not confirmed until then
	waiting      map[*place]struct{}
}

// place is that of one who waits. Of the zero place nobody knows.
type place struct {
	queued  *queued
	channel *grants
	told    chan struct{}    // receives when a message has come
	message protocol.Message // the last one that nobody has taken; guarded by line.mu

	asks    []ask // the last one that was answered, and those behind it that were not
	room    [2]ask
	stands  bool
	besides bool // it listens where Redisson does as well
	drops   int  // how often the place was lost
}

// ask is one question of who is to stand in line if it is refused.
type ask struct {
	number string
	sent   mono.Time
}

// asked is an ask, and whose it is.
type asked struct {
	*place
	number string
}

// prepare makes the request of the next try.
func (q *queued) prepare() {
	e, p := q.engine, &q.place
	if !q.lock.Line && !q.request.IsZero() {
		return // it may have an id, so it stays what it is
	}
	q.args.Number = ""
	if q.lock.Line && e.line.hears(q.lock) {
		q.args.Number, q.args.Scattered = rand.Text(), e.Calls.Slotted()
		if p.asks == nil {
			p.asks = p.room[:0]
		}
		p.asks = append(p.asks, ask{q.args.Number, mono.Now()})
	}
	q.registered = q.registered || q.args.Number != "" || q.lock.Registers
	q.request = q.lock.Requests.Acquire(q.args)
}

// granted is the answer to an ask that has come as a message, if the hold can be trusted for long enough to begin with it. Else the
// next ask finds that it is held.
func (q *queued) granted() (res call.Result, ok bool) {
	number := q.place.takeGrant()
	i := slices.IndexFunc(q.place.asks, func(a ask) bool { return a.number == number })
	a, grant := q.acquisition, q.args.Grant()
	if i < 0 || !a.beginsWithMessage() {
		return res, false
	}
	res.Reply, res.Sent = script.Reply{Code: script.Done}, q.place.asks[i].sent
	trusted := q.engine.watchdog.Trust(res.Sent, grant)
	if mono.Until(trusted) < grant/2 {
		return res, false
	}
	a.grant = grant
	return res, true
}

// beginsWithMessage reports whether a hold may begin before Redis has been asked whether it has all that it needs.
func (a *acquisition) beginsWithMessage() bool {
	return !a.args.Fixed && a.args.Retained() == 0 && !a.lock.Fenced && a.engine.Replicas == 0 && a.engine.MaxHold == 0
}

// hears reports whether the client hears if it is granted a lock.
func (l *line) hears(lock *Lock) bool {
	if !l.listen.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[l.channelOf(lock)]
	return c != nil && c.confirmed && c.outsideUntil < mono.Now()
}

// channelOf is where a client hears that it was granted a lock.
func (l *line) channelOf(lock *Lock) string {
	if l.engine.Calls.Sharded() {
		return protocol.GrantChannel(l.engine.ID, lock.Name, true)
	}
	return l.common
}

// Hear is called by the hub: with a message, or with nothing when the channel is subscribed to, perhaps anew.
func (c *grants) Hear(payload string) {
	l := c.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if payload == "" {
		c.confirmed = true
		for p := range c.waiting {
			p.queued.waiter.Notify() // what was said before is lost
		}
		return
	}
	message, ok := protocol.ReadMessage(payload)
	if !ok || len(payload) > longestMessage {
		return // nobody of ours has said that
	}
	if a, found := l.asks[protocol.AskName(message.Number)]; found {
		if !message.Granted || message.Number == a.number { // else it is forged: the name is known, the rest is not
			a.deliver(message)
		}
		return
	}
	delete(l.early, l.order[l.next])
	l.early[message.Number], l.order[l.next] = message, message.Number
	l.next = (l.next + 1) % unclaimed
}

// deliver leaves a message to one who waits. A grant is replaced by another grant only. line.mu is held.
func (p *place) deliver(message protocol.Message) {
	if p.message.Granted && !message.Granted {
		return
	}
	p.message = message
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// takeGrant takes the message that was left, and returns the number of the ask that it grants; empty if there is none.
func (p *place) takeGrant() (number string) {
	if p.channel == nil {
		return ""
	}
	p.channel.line.mu.Lock()
	defer p.channel.line.mu.Unlock()
	if p.message.Granted {
		number = p.message.Number
	}
	p.message = protocol.Message{}
	return number
}

// askLater is after how long to ask, as the message says that was left, which it takes then; 0: at once. A grant it leaves.
func (p *place) askLater() time.Duration {
	if p.channel == nil {
		return 0
	}
	p.channel.line.mu.Lock()
	defer p.channel.line.mu.Unlock()
	if p.message.Granted {
		return 0
	}
	after := p.message.After
	p.message = protocol.Message{}
	return after
}

// listens reports whether to listen where Redisson does: outside the line, and in it if Redis says so.
func (p *place) listens() bool { return !p.stands || p.besides }

// joined reports whether join was called, as it is after every answer.
func (p *place) joined() bool { return p.queued != nil }

// join has the client listen, and the place hear, of grants for its asks.
func (p *place) join(q *queued) {
	if !q.lock.Line {
		return
	}
	l := &q.engine.line
	if p.queued == nil {
		p.queued, p.told = q, make(chan struct{}, 1)
		p.channel = l.join(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range p.asks {
		name := protocol.AskName(a.number)
		l.asks[name] = asked{p, a.number}
		for _, key := range []string{name, a.number} {
			if message, came := l.early[key]; came {
				delete(l.early, key)
				p.deliver(message)
			}
		}
	}
}

// refused notes what the answer to the last ask says, and reports whether the place is in the line.
func (p *place) refused(q *queued, reply script.Reply) bool {
	if !q.lock.Line {
		return false
	}
	place, anew := protocol.ReadPlace(reply)
	if p.stands && anew {
		p.dropped()
	}
	p.stands, p.besides = place >= 0, protocol.ReadListens(reply)
	over := max(len(p.asks)-1, 0) // what was said of earlier ones is over
	if q.args.Number == "" {
		over = 0 // it asks from outside, and may stand there still, with the last of them
	}
	earlier := p.asks[:over:over]
	p.asks = p.asks[over:]
	p.join(q)
	p.channel.line.mu.Lock()
	defer p.channel.line.mu.Unlock()
	p.drop(earlier)
	return p.stands
}

// dropped notes that the place was lost. Once that is by chance, as when a failover has lost the line. Twice, Redis knows of no
// listener, or its messages are not heard.
func (p *place) dropped() {
	if p.drops++; p.drops < 2 {
		return
	}
	l := p.channel.line
	l.mu.Lock()
	defer l.mu.Unlock()
	p.channel.outsideUntil = mono.Now().Add(outsideFor)
}

// drop has nobody hear of grants for some asks any more. line.mu is held.
func (p *place) drop(asks []ask) {
	for _, a := range asks {
		delete(p.channel.line.asks, protocol.AskName(a.number))
		if p.message.Granted && p.message.Number == a.number {
			p.message = protocol.Message{}
		}
	}
}

// leave has the place hear of nothing any more.
func (p *place) leave() {
	if p.channel == nil {
		return
	}
	l := p.channel.line
	l.mu.Lock()
	defer l.mu.Unlock()
	p.drop(p.asks)
	delete(p.channel.waiting, p)
}

// join has a place hear of its channel, to which it subscribes if nobody has yet. Before that it leaves those on which nobody waits, if
// they are too many.
func (l *line) join(p *place) *grants {
	name := l.channelOf(p.queued.lock)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.channels[name]
	if c == nil {
		idle := l.idle()
		c = &grants{line: l}
		c.waiting = map[*place]struct{}{p: {}}
		l.channels[name] = c
		l.listen.Store(true)
		l.mu.Unlock() // the hub has a mutex of its own, also when it calls Hear
		for _, each := range idle {
			each.Leave()
		}
		joined := l.engine.hub.Join(name, c)
		l.mu.Lock()
		c.subscription = joined
	}
	c.waiting[p] = struct{}{}
	return c
}

// idle takes out the channels on which nobody waits, if they are too many. mu is held.
func (l *line) idle() (idle []*wakeup.Subscription) {
	if len(l.channels) <= idleChannels {
		return nil
	}
	for name, c := range l.channels {
		if len(c.waiting) == 0 && c.subscription != nil {
			delete(l.channels, name)
			idle = append(idle, c.subscription)
		}
	}
	return idle
}
