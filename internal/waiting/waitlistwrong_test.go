package waiting

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/mono"
)

// The properties of the world of a waitlist.

func (w *waitlistWorld) wrong(s *search) string {
	valid := 0
	for n := range w.all() {
		i, p := int8(n), &w.process[n]
		switch {
		case w.fault != "":
			return w.fault
		case p.phase == holds && !p.fooled && p.trust > w.now:
			if valid++; w.redis.holder != i || w.redis.until < p.trust {
				return name(i) + " relies on its hold for longer than the key lives"
			}
		case p.phase == idle && (w.redis.holder == i || w.redis.position(i) >= 0 || w.redis.reserved[i]):
			return name(i) + " has left, and something of it stays in Redis"
		case p.phase == waits:
			if wrong := w.wrongWait(i, s); wrong != "" {
				return wrong
			}
		}
		if p.phase != waits && p.awaited != 0 {
			return name(i) + " does not wait, and messages for it are awaited"
		}
	}
	if valid > 1 {
		return "two rely on their holds at once"
	}
	return w.finish(s)
}

func (w *waitlistWorld) wrongWait(i int8, s *search) string {
	p := &w.process[i]
	switch p.w.state {
	case Requesting:
	case HoldingBack, Asleep:
		if p.w.at.IsZero() || p.w.at > w.now+longestSleep {
			return name(i) + " sleeps without end"
		}
	default:
		if p.w.state != Due || !w.contended {
			return fmt.Sprint(name(i), " stays in state ", p.w.state)
		}
	}
	counts := uint64(0)
	for _, r := range p.w.requests {
		counts |= 1 << number(r.ID)
	}
	if counts != p.valid || counts != p.awaited {
		return fmt.Sprintf("%s: messages for %b count, for %b they should, and for %b they are awaited", name(i), counts, p.valid, p.awaited)
	}
	before := s.of(func(k *key) { k.wait(&p.w) })
	for _, forged := range []Event{Grant{"forged"}, Retry{"forged", 0}, Retry{"forged", 1}} {
		c := p.w.clone()
		if c.On(w.now, forged, Lore{}); s.of(func(k *key) { k.wait(&c) }) != before {
			return name(i) + " believes a forged message"
		}
	}
	for at, m := range w.redis.messages {
		if m.to == i && m.grant && w.ignores(i, int8(at)) {
			return name(i) + " ignores a grant message"
		}
	}
	took := w.clone().alone(i)
	if s.slowest = max(s.slowest, took); took > waitsAtMost {
		return fmt.Sprintf("%s waits beside a free lock, %d ticks", name(i), took)
	}
	return ""
}

// ignores reports whether a process that gets a grant message, and no reply to the request under way, neither holds the lock then
// nor sends a request, though the message counts and enough is left of its grant.
func (w *waitlistWorld) ignores(i, at int8) bool {
	p, m := &w.process[i], w.redis.messages[at]
	requesting := p.w.state == Requesting
	if left := w.sent[m.id] + grantLease - w.now; p.valid>>m.id&1 == 0 || left < 1 {
		return false
	}
	if requesting && (!p.w.inTouch || p.silent != 0 && w.now-p.silent >= outage) {
		return false // it gives up
	}
	c := w.clone()
	c.do(event{getsMessage, i, at})
	if requesting {
		c.do(event{what: getsNoReply, who: i})
	}
	q := &c.process[i]
	if q.phase == waits && q.w.state == Due {
		c.do(event{what: takesSlot, who: i})
	}
	if w.policy.GrantValid > 0 {
		return q.phase != holds
	}
	return q.w.state != Requesting
}

// alone makes a waiter go on while others take no step and no message arrives. It returns for how many ticks it waits.
func (w *waitlistWorld) alone(i int8) mono.Time {
	began, p := w.now, &w.process[i]
	for range longestFinish {
		if p.phase != waits {
			return w.now - began
		}
		w.step(i)
	}
	return longestFinish // if it has no end
}

// step makes a waiter do the next thing without a fault, or time pass.
func (w *waitlistWorld) step(i int8) {
	switch p := &w.process[i]; {
	case p.w.state == Requesting:
		w.do(event{what: getsReplyBesides, who: i})
		p.sends = 0
	case p.w.state == Due:
		w.do(event{what: takesSlot, who: i})
	case p.w.at <= w.now:
		w.do(event{what: timer, who: i})
	default:
		w.do(event{what: ticks})
	}
}

// finish makes everything go on without a fault until nobody wants anything, and reports what is left.
func (w *waitlistWorld) finish(s *search) string {
	var way []digest
	for range longestFinish {
		state := s.of(w.key)
		busy := slices.ContainsFunc(w.all(), func(p process) bool { return p.phase != idle && p.phase != killed })
		switch {
		case s.ends[state], !busy && (w.redis.holder == nobody || w.process[w.redis.holder].phase == killed):
			for _, state := range way {
				s.ends[state] = true
			}
			return ""
		case !busy:
			return "in the end the lock stays held"
		}
		way = append(way, state)
		if !w.proceed() {
			w.do(event{what: ticks})
		}
	}
	return "it does not come to an end"
}

// proceed makes a process do what it can do at once, and reports whether one could.
func (w *waitlistWorld) proceed() bool {
	for n := range w.all() {
		i, p := int8(n), &w.process[n]
		switch {
		case p.phase == holds:
			p.phase = releasing
		case p.phase == releasing:
			w.do(event{what: releases, who: i})
		case p.phase == leaving && p.sends == 0:
			w.do(event{what: leaves, who: i})
		case p.phase != waits:
			continue
		case p.w.state == Requesting, p.w.state == Due:
			w.step(i)
		case w.messageTo(i) >= 0:
			at := w.messageTo(i)
			m := w.redis.messages[at]
			w.redis.messages = slices.Delete(w.redis.messages, at, at+1)
			w.deliver(i, m)
		case p.woken && p.w.state == Asleep:
			w.do(event{what: isWoken, who: i})
		case p.w.at <= w.now:
			w.step(i)
		default:
			continue
		}
		return true
	}
	return false
}

func (w *waitlistWorld) messageTo(i int8) int {
	return slices.IndexFunc(w.redis.messages, func(m message) bool { return m.to == i })
}
