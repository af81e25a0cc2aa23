package waiting

import (
	"fmt"
	"math/bits"
	"slices"
)

// What may happen in the world of a waitlist.

const (
	begins uint8 = iota
	givesUp
	timer
	isWoken
	takesSlot
	receives
	othersFirst
	getsNoReply
	endsDuring
	repeats
	readsLate
	getsReply
	getsReplyBesides
	losesReply
	arrivesLate
	getsMessage
	confirms
	confirmsUnread
	unlocks
	releases
	releasesYielding
	leaves
	leavesAgain
	loses
	breaks
	subscribes
	isKilled
	force
	forgetsList
	ticks
)

var waitlistWords = [...]string{
	"begins to wait", "gives up, or its client closes", "has slept", "is woken", "has the try slot", "is handed a hold off",
	"has to let others go first", "gets no reply", "gives up during a request", "repeats its request", "reads a late reply", "gets a reply",
	"gets a reply beside another attempt", "has its reply delayed or lost", "has a late request arrive:", "gets the message at",
	"has its hold confirmed", "has its hold confirmed and the reply lost", "calls Unlock", "releases", "releases, and Redis yields", "leaves",
	"has another attempt of its leave or release arrive", "learns that its hold is lost", "loses its connection", "subscribes", "is killed",
	"is released by force",
}

func name(i int8) string { return string(rune('A' + i)) }

func (w *waitlistWorld) describe(e event) string {
	switch e.what {
	case ticks:
		return "the clock ticks"
	case forgetsList:
		return "Redis loses the waitlist"
	case arrivesLate, getsMessage:
		return fmt.Sprint(name(e.who), " ", waitlistWords[e.what], " ", e.arg)
	default:
		return name(e.who) + " " + waitlistWords[e.what]
	}
}

func (w *waitlistWorld) events(all []event) []event {
	for n := range w.all() {
		all = w.eventsOf(int8(n), all)
	}
	if w.accidents > 0 {
		if of := w.redis.holder; of != nobody && w.process[of].phase == waits { // if it holds, its trust is wrong then, as documented
			all = append(all, event{what: force, who: of})
		}
		if len(w.redis.list) > 0 {
			all = append(all, event{what: forgetsList})
		}
	}
	return append(all, event{what: ticks})
}

func (w *waitlistWorld) eventsOf(i int8, all []event) []event {
	p := &w.process[i]
	add := func(what uint8, when bool) {
		if when {
			all = append(all, event{what: what, who: i})
		}
	}
	switch p.phase {
	case idle:
		add(begins, !p.late && p.sends == 0)
	case waits:
		all = w.eventsOfWaiting(i, all)
	case holds:
		valid := p.trust > w.now
		add(loses, !valid)
		add(confirms, valid && w.redis.holder == i)
		add(confirmsUnread, valid && w.redis.holder == i)
		add(unlocks, valid)
	case releasing:
		add(releases, true)
		add(releasesYielding, w.redis.holder == i && w.yields())
	case leaving:
		add(leaves, p.sends == 0 || w.rules.leavesAtOnce)
	case killed:
	}
	for sends := p.sends; sends != 0; sends &= sends - 1 {
		if id := int8(bits.TrailingZeros64(sends)); p.phase != waits || p.w.state != Requesting || id != p.id {
			all = append(all, event{arrivesLate, i, id})
		}
	}
	add(leavesAgain, p.late)
	add(breaks, p.phase != killed && p.connected)
	add(subscribes, p.phase != killed && !p.connected)
	add(isKilled, p.phase != killed && int(i) == w.processes-1)
	return all
}

func (w *waitlistWorld) eventsOfWaiting(i int8, all []event) []event {
	p := &w.process[i]
	add := func(what uint8, when bool) {
		if when {
			all = append(all, event{what: what, who: i})
		}
	}
	for at, m := range w.redis.messages {
		if m.to == i {
			all = append(all, event{getsMessage, i, int8(at)})
		}
	}
	switch state := p.w.state; state {
	case Requesting:
		add(getsNoReply, true)
		add(endsDuring, true)
		sent := p.sends>>p.id&1 == 1
		add(getsReply, sent)
		add(getsReplyBesides, sent)
		add(losesReply, sent)
		add(repeats, !sent)
		add(readsLate, p.reply.came)
	default:
		add(givesUp, true)
		add(timer, !p.w.at.IsZero() && p.w.at <= w.now)
		add(isWoken, state == Asleep && p.woken)
		add(takesSlot, state == Due)
		add(receives, w.contended)
		add(othersFirst, w.contended && state == Asleep && p.notBefore.IsZero())
	}
	return all
}

func (w *waitlistWorld) do(e event) {
	i, p := e.who, &w.process[e.who]
	switch e.what {
	case begins:
		w.begin(i)
	case givesUp:
		w.on(i, Ended{})
	case timer:
		w.on(i, Timer{})
	case isWoken:
		p.woken = false
		w.on(i, Woken{})
	case takesSlot:
		w.takeSlot(i)
	case receives: // a hold of another owner
		w.on(i, Received{})
	case othersFirst:
		p.notBefore = w.now + 1
	case getsNoReply:
		p.doubt = w.now
		if p.silent.IsZero() {
			p.silent = w.now
		}
		w.on(i, Failed{Transient: true})
		if p.phase == waits && w.now-p.silent >= outage {
			w.fault = name(i) + " tolerates an outage for ever"
		}
	case endsDuring:
		p.doubt = w.now
		w.on(i, Failed{})
	case repeats:
		p.sends |= 1 << p.id
	case readsLate:
		w.read(i, p.reply)
	case getsReply:
		p.sends &^= 1 << p.id
		w.read(i, w.request(i, p.id))
	case getsReplyBesides:
		w.read(i, w.request(i, p.id))
	case losesReply:
		p.doubt, p.reply = w.now, w.request(i, p.id)
	case arrivesLate:
		w.request(i, e.arg)
	case getsMessage:
		w.deliver(i, w.redis.messages[e.arg])
	default:
		w.doOther(e)
	}
	w.tidy()
}

// begin begins a wait: of the first process with the queue, of others with a request.
func (w *waitlistWorld) begin(i int8) {
	p := &w.process[i]
	p.phase, p.doubt, p.leaveDue, p.awaited, p.valid = waits, 0, false, 0, 0
	if i == 0 || w.contended {
		p.w = New(w.policy, false)
		w.on(i, Head{})
		return
	}
	p.id, p.first = 0, w.now
	if w.policy.Lists != Never && p.subscribed && p.unlisted < w.now {
		p.id = w.newID(p)
		p.w = Begun(w.policy, false, ids[p.id], w.now)
	} else {
		p.w = Begun(w.policy, false, "", w.now)
	}
	p.sends |= 1 << p.id
}

// deliver puts a message into the box, which is read at once unless a request is under way. A grant is replaced by a grant only.
func (w *waitlistWorld) deliver(i int8, m message) {
	p := &w.process[i]
	if m.grant || !p.box.grant {
		p.box = m
	}
	if p.w.state != Requesting {
		w.takeBox(i)
	}
}

// doOther is do for what happens to holds, connections or all.
func (w *waitlistWorld) doOther(e event) {
	i, p := e.who, &w.process[e.who]
	switch e.what {
	case confirms, confirmsUnread:
		if w.redis.until = max(w.redis.until, w.now+lease); e.what == confirms {
			p.trust = w.now + lease
		}
	case unlocks, loses:
		p.phase = releasing
	case releases, releasesYielding:
		if e.what == releases {
			w.release(i)
		} else {
			w.releaseYielding(i)
		}
		p.late, p.phase = true, leaving
		w.leaveIfNothing(i)
	case leaves:
		if p.doubt != 0 { // the engine reconciles: it releases what an attempt may have taken
			w.release(i)
		}
		if p.leaveDue {
			w.leave(i)
		}
		p.late, p.phase, p.doubt, p.leaveDue = true, idle, 0, false
	case leavesAgain:
		w.leave(i)
	case breaks:
		p.connected, p.woken = false, false
		w.redis.messages = slices.DeleteFunc(w.redis.messages, func(m message) bool { return m.to == i })
	case subscribes:
		p.connected, p.subscribed = true, true
		if p.woken = p.phase == waits; p.woken && p.w.state == Asleep {
			p.woken = false
			w.on(i, Woken{})
		}
	case isKilled:
		*p = process{phase: killed, sends: p.sends, late: p.late}
	case force:
		w.force(i)
	case forgetsList:
		w.accidents--
		w.redis.list = nil
	case ticks:
		w.tick()
	}
}

// force releases the lock of a waiter that may learn of its grant all the same.
func (w *waitlistWorld) force(i int8) {
	p := &w.process[i]
	w.accidents--
	for _, m := range append(w.redis.messages, p.box) {
		if m.to == i && m.grant {
			p.forced = m.id
		}
	}
	for _, r := range p.w.requests {
		if r.sent == p.w.granted {
			p.forced = number(r.ID)
		}
	}
	p.reply.forced = p.reply.came
	w.release(i)
}
