package protocol

// This file has Redis's part in the line, Redisson's, and the clock.

// endless is the life of a key that does not expire.
const endless = 9

func (s *lineState) free() { s.holder, s.life = nobody, 0 }

// raise has the key live for a lease at least.
func (s *lineState) raise() {
	if s.life < lineLease || s.life == endless {
		s.life = lineLease
	}
}

// at is where a waiter stands in line; if it does not, it is how many stand there.
func (s *lineState) at(i int8) int8 {
	for at := range s.stand {
		if s.line[at].waiter == i {
			return at
		}
	}
	return s.stand
}

// remove takes out of the line who stands there, if anybody does.
func (s *lineState) remove(at int8) {
	if at < s.stand {
		s.stand--
		copy(s.line[at:], s.line[at+1:])
		s.line[s.stand] = place{}
	}
}

// ask is acquire.lua with a number: the owner takes the lock, or stands in line. It reports whether the owner
// has the lock.
func (m Line) ask(s *lineState, i, number int8) bool {
	if s.holder == nobody {
		m.grant(s, i)
	}
	if s.holder == i {
		s.raise()
		return true
	}
	at := s.at(i)
	s.stand = max(s.stand, at+1)
	s.line[at] = place{i, number}
	return false
}

// grant gives a free lock to the first in line that hears of it. If somebody asks, that is the first after those before it.
func (m Line) grant(s *lineState, asking int8) {
	for s.stand > 0 {
		first := s.line[0]
		s.remove(0)
		w := &s.who[first.waiter]
		if first.waiter == asking {
			break
		}
		if w.stage == killed && !m.Without.GrantsUnheard {
			continue
		}
		s.holder, s.life = first.waiter, grantLease
		if m.Without.NoGrantLease {
			s.life = endless
		}
		if first.number > 0 {
			w.told = w.told.with(first.number)
		}
		return
	}
	if asking != nobody {
		s.holder = asking
	}
}

// release is release.lua, which grants.
func (m Line) release(s *lineState, i int8) {
	if s.holder == i {
		s.free()
		m.grant(s, nobody)
	}
}

// leave takes the owner out of the line, and the lock from the owner.
func (m Line) leave(s *lineState, i int8) {
	if s.remove(s.at(i)); !m.Without.LeavesGrant {
		m.release(s, i)
	}
}

// arrivals has the sends of a waiter reach Redis.
func (m Line) arrivals(i int8, s lineState, take func(what string, next lineState)) {
	for number := range int8(grantLease + 1) {
		if s.who[i].sends.has(number) {
			m.askArrives(i, number, s, take)
		}
	}
	if s.who[i].late {
		m.leave(&s, i)
		take(arrivalsOf[i].leave, s)
	}
}

// askArrives has an ask reach Redis, and its answer the waiter, now, later or never. Other attempts of the same ask may
// be under way.
func (m Line) askArrives(i, number int8, s lineState, take func(what string, next lineState)) {
	done := m.ask(&s, i, number)
	w := &s.who[i]
	if w.stage != waiting {
		take(arrivalsOf[i].late, s)
		return
	}
	unheard, last := s, s
	last.who[i].sends &^= 1 << number
	if done {
		unheard.who[i].answer = lineLease
		s, last = m.work(s, i, lineLease), m.work(last, i, lineLease)
	} else if m.Without.OneNumberAWait {
		w.asked, last.who[i].asked = grantLease, grantLease
	}
	take(arrivalsOf[i].last, last)
	take(arrivalsOf[i].heard, s)
	take(arrivalsOf[i].unheard, unheard)
}

// arrivalsOf are the words for what arrives.
var arrivalsOf = func() (words [waiters]struct{ last, heard, unheard, late, leave string }) {
	for i, name := range waiterNames {
		w, call := &words[i], "gets the ask of "+name
		w.last = call + ", and answers"
		w.heard = call + ", and answers; another attempt is under way"
		w.unheard = call + ", and its answer is late, or lost"
		w.late = call + ", late"
		w.leave = "gets another attempt of the leave or release of " + name
	}
	return words
}()

func stepsOfRedisson(s lineState, take func(what string, next lineState)) {
	switch s.holder {
	case nobody:
		s.holder, s.life = redisson, lineLease
		take("takes the lock", s)
	case redisson:
		next := s
		next.raise()
		take("renews its hold", next)
		s.free()
		take("releases the lock", s)
	}
}

func (m Line) tick(s *lineState) {
	if s.life > 0 && s.life != endless {
		if s.life--; s.life == 0 {
			s.free()
		}
	}
	for at := range s.line {
		if m.ages() {
			s.line[at].number = max(0, s.line[at].number-1)
		}
	}
	for i := range s.who {
		w := &s.who[i]
		w.sends, w.late = 0, false
		w.trust, w.asked, w.answer = max(0, w.trust-1), max(0, w.asked-1), max(0, w.answer-1)
		if m.ages() {
			w.told = w.told.aged()
		}
	}
}
