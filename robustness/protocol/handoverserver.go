package protocol

// This file has Redis's part in the hand-over, and what its answers, late or never, do.

func (s *processes) free() { s.holder, s.count, s.life = none, 0, 0 }

// take has an owner hold the lock so many times.
func (s *processes) take(o owner, count int8) {
	s.holder, s.count, s.life = o, count, max(s.life, handOverLease)
}

// resend is Caller.Do: no answer has come, so the call is sent again.
func (m HandOver) resend(s processes, take func(who, what string, next processes)) {
	if s.resent == resends {
		return
	}
	for g := range s.who {
		caller := &s.who[g]
		if caller.stage != asks && caller.stage != releases {
			continue
		}
		next := s
		next.resent++
		next.put(int8(g))
		take(goNames[g], "has no answer, and sends its call again", next)
	}
}

// code is what a script answers.
type code int8

const (
	codeDone code = iota
	codeRefused
	codeChanged
)

// run executes a send, as the scripts do.
func (s *processes) run(on send) code {
	var count int8
	if s.holder == on.owner {
		count = s.count
	}
	if on.kind == acquire { // acquire.lua
		if s.holder != none || on.from != 0 {
			switch {
			case count != on.to && on.from == 0:
				return codeRefused
			case count != on.to && count != on.from:
				return codeChanged
			}
		}
		s.take(on.owner, on.to)
		return codeDone
	}
	switch { // release.lua
	case count == 0:
		return codeRefused
	case count > on.from || count < on.to:
		return codeChanged
	case on.to > 0:
		s.count = on.to
	default:
		s.free()
	}
	return codeDone
}

// arrive has a send reach Redis, and its answer the caller, or nobody.
func (m HandOver) arrive(s processes, i int, take func(who, what string, next processes)) {
	on := s.wire[i]
	s.wire[i] = send{}
	s.sort()
	answer := s.run(on)
	if s.detached && s.holder != ownA {
		s.detached = false
	}
	waiting := s.who[on.by].stage == asks && on.kind == acquire || s.who[on.by].stage == releases && on.kind == release
	if !waiting {
		take("Redis", arrivals[on.kind][on.by].late, s)
		return
	}
	if on.kind == acquire || s.resent < resends || s.who[on.by].sends > 1 { // else nobody would ever hear
		take("Redis", arrivals[on.kind][on.by].unheard, s)
	}
	if on.kind == release {
		m.hearRelease(&s, on, answer)
	} else {
		s.hear(on, answer)
	}
	take("Redis", arrivals[on.kind][on.by].heard, s)
}

// arrivals are the words for what arrives.
var arrivals = func() (words map[callKind][3]struct{ late, unheard, heard string }) {
	words = map[callKind][3]struct{ late, unheard, heard string }{}
	for kind, what := range map[callKind]string{acquire: "acquire", release: "release"} {
		var each [3]struct{ late, unheard, heard string }
		for g := range each {
			call := "gets the " + what + " of " + goNames[g]
			each[g].late = call + ", late"
			each[g].unheard = call + ", and its answer is lost"
			each[g].heard = call + ", and answers"
		}
		words[kind] = each
	}
	return words
}()

// hear has the caller learn what came of its acquire.
func (s *processes) hear(on send, answer code) {
	g := &s.who[on.by]
	more := g.sends > 1 // another send was not answered
	ofA := on.owner == ownA
	switch {
	case answer == codeDone:
		g.stage, g.call, g.sends = inside, send{}, 0
		g.trust = handOverLease - (sendLimit - on.left)
		if ofA {
			s.counts = on.to
			s.oneDeadline(g.trust)
		}
	case answer == codeRefused && on.by == goB:
		*g = goroutine{stage: waits} // it asks again when it is told
	case answer == codeRefused && on.by == goA:
		*g = goroutine{}
	default:
		s.untrue = s.untrue || answer == codeChanged && s.who[goA].trusts() && s.holder == ownA
		*g = goroutine{stage: done}
	}
	if ofA {
		s.sem = nobodyGo
		s.unsure = s.unsure || more
	} else {
		s.unsureB = s.unsureB || more
	}
}

// oneDeadline moves that of all who hold the lock as A's owner.
func (s *processes) oneDeadline(trust int8) {
	for _, g := range []int8{goA, goN} {
		if s.who[g].stage == inside {
			s.who[g].trust = max(trust, s.who[g].trust)
		}
	}
}

// hearRelease is what follows in side.giveBack.
func (m HandOver) hearRelease(s *processes, on send, answer code) {
	g := &s.who[on.by]
	more := g.sends > 1
	s.untrue = s.untrue || g.trust > 0 && (answer == codeChanged || answer == codeRefused && !more)
	*g = goroutine{stage: done}
	if on.owner != ownA {
		s.unsureB = s.unsureB || more
		return
	}
	s.counts = on.to
	s.unsure = s.unsure || more
	if s.sem = nobodyGo; s.unsure && !m.Without.FreesTurnEarly {
		s.sem = cleaner
	}
}

// over reports whether no send of an owner can have an effect any more.
func (s *processes) over(o owner) bool {
	for _, on := range s.wire {
		if on.kind != 0 && on.owner == o && on.left > 0 {
			return false
		}
	}
	return true
}

// cleanUp is side.reconcile: once the limits of what was not answered have passed, what nobody
// needs is given back.
func (m HandOver) cleanUp(s processes, take func(who, what string, next processes)) {
	if s.unsure && (s.sem == cleaner || s.sem == nobodyGo && s.needed() == 0) && s.over(ownA) {
		next := s
		next.unsure, next.sem = false, nobodyGo
		if next.counts = next.needed(); !m.Without.NoCleanup {
			next.reduce(ownA, next.counts)
		}
		take("the clean-up", "gives back what nobody needs of A's owner", next)
	}
	if s.unsureB && s.who[goB].stage == done && s.over(ownB) {
		next := s
		if next.unsureB = false; !m.Without.NoCleanup {
			next.reduce(ownB, 0)
		}
		take("the clean-up", "gives back what nobody needs of B's owner", next)
	}
}

// reduce takes an owner's count down.
func (s *processes) reduce(o owner, to int8) {
	switch {
	case s.holder != o || s.count <= to:
	case to == 0:
		s.free()
	default:
		s.count = to
	}
}

func (m HandOver) tick(s processes, take func(who, what string, next processes)) {
	before := s
	for i := range s.who {
		s.who[i].trust = max(0, s.who[i].trust-1)
	}
	for i := range s.wire {
		on := &s.wire[i]
		on.left = max(0, on.left-1)
		if on.left == 0 && !m.Without.NoLimit {
			*on = send{}
		}
	}
	s.sort()
	if s.life > 0 {
		if s.life--; s.life == 0 {
			s.free()
			s.detached = false
		}
	}
	if s != before {
		take("the clock", "ticks", s)
	}
}
