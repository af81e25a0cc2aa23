package engine

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/mono"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/internal/script"
)

// This file is about the line in Redis as one waiter sees it: see "The line" in the package's documentation. What Redis does is in
// protocol/lua/line.lua, rw.lua, permits.lua and fair.lua, and why in docs/internals/protocol.md, "The line".

// place is that of one who waits. Of the zero place nobody knows.
type place struct {
	channel *grantChannel // nil before join
	box     box
	message protocol.Message // what was taken from the box and has no effect yet

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

// note takes a message that was in the box. A grant is replaced by another grant only.
func (p *place) note(m protocol.Message) {
	if m.Granted || !p.message.Granted {
		p.message = m
	}
}

// takeGrant returns the number of the ask that a message grants; empty if none does. Other messages are over.
func (p *place) takeGrant() (number string) {
	select {
	case m := <-p.box:
		p.note(m)
	default:
	}
	if p.message.Granted {
		number = p.message.Number
	}
	p.message = protocol.Message{}
	return number
}

// askLater is after how long to ask, as the message says that was noted, which is over then; 0: at once. A grant stays.
func (p *place) askLater() time.Duration {
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
func (p *place) joined() bool { return p.channel != nil }

// join has the client listen for grants, and puts those for its asks into its box.
func (p *place) join(q *queued) {
	if !q.lock.Line {
		return
	}
	m := &q.engine.mail
	if p.channel == nil {
		p.box = newBox()
		p.channel = m.join(q.lock, p.box, q.waiter.Notify)
	}
	for _, a := range p.asks {
		m.expect(p.box, a.number)
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
	p.drop(earlier)
	return p.stands
}

// dropped notes that the place was lost. Once that is by chance, as when a failover has lost the line. Twice, Redis knows of no
// listener, or its messages are not heard.
func (p *place) dropped() {
	if p.drops++; p.drops >= 2 {
		p.channel.doubt()
	}
}

// drop has nobody hear of grants for some asks any more.
func (p *place) drop(asks []ask) {
	if len(asks) == 0 {
		return
	}
	p.channel.mail.forget(p.box, asks)
	if slices.ContainsFunc(asks, func(a ask) bool { return protocol.AskName(a.number) == protocol.AskName(p.message.Number) }) {
		p.message = protocol.Message{}
	}
}

// leave has the place hear of nothing any more.
func (p *place) leave() {
	if p.channel == nil {
		return
	}
	p.drop(p.asks)
	p.channel.leave(p.box)
}
