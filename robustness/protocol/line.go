package protocol

const (
	lineLease  = 3 // in ticks; a send is taken until the clock ticks
	grantLease = 2 // for how long the key of a grant lives
)

// LineRules are those of the implementation, each a field that drops it. The zero value has all.
// README.md says what keeps each in the code.
type LineRules struct {
	CountsFromArrival bool // a deadline counts from when the message arrives
	CountsFromRepeat  bool // a deadline counts from the last attempt of the ask, and not from the first
	BelievesAnyNumber bool // a message is believed whatever its number is
	BelievesEarlier   bool // a message is believed that an earlier wait was sent
	OneNumberAWait    bool // all asks of a wait have one number; a deadline counts from the last ask that was answered
	WorksUnconfirmed  bool // a waiter with a message works for a whole lease, and does not confirm
	NoGrantLease      bool // the key of a grant does not expire
	GrantsUnheard     bool // a grant does not look who hears of it
	NeverAsksAgain    bool // a waiter that stands in line does not ask
	LeavesGrant       bool // leave does not release what was granted meanwhile
	LeavesEarly       bool // leave does not wait for asks that may still arrive
	LeavesInside      bool // leave does not wait for the end of the hold
	WaitsAnewEarly    bool // an owner waits anew while attempts of its leave may still arrive
}

// Line is one lock, the line of its waiters, and a client of Redisson's that knows of no line. A client that takes
// no step any more is dead, deaf, or stands still: the model does not say which.
type Line struct{ Without LineRules }

// The clients. A waiter has one owner, for all its waits. One of them may be killed.
const (
	waiterA  int8 = 0
	mortal   int8 = 2
	waiters       = 3
	redisson int8 = waiters // holds, and never waits
)

var waiterNames = [waiters]string{"A", "B", "C"}

// waitStage is where a waiter is on its way.
type waitStage int8

const (
	idle    waitStage = iota
	waiting           // it asks, or stands in line
	working           // it holds the lock; if it trusts nothing, it has not noticed
	freeing           // its release is under way
	leaving           // its wait or its hold is over, and something of it may be in Redis
	killed            // and its connection is closed: nobody hears what is told to it
)

// waiter is one of our clients. The number of an ask is written as what it is worth: how many ticks a hold is
// trusted for that begins with it now. A number of an earlier wait is worth 0, as one that is forged or too old.
type waiter struct {
	stage  waitStage
	trust  int8    // how many ticks it trusts its hold for
	asked  int8    // the number of its last ask; with OneNumberAWait: what its last answered ask is worth
	sends  numbers // of asks that may arrive
	told   numbers // of messages that may arrive, any number of times
	answer int8    // how many ticks of trust the answer brings that is under way; 0: there is none
	late   bool    // attempts of its leave or its release may still arrive
}

// numbers is a set.
type numbers uint8

func (n numbers) has(number int8) bool { return n>>number&1 != 0 }

func (n numbers) with(number int8) numbers { return n | 1<<number }

// aged has each number one less, without what is worth nothing.
func (n numbers) aged() numbers { return n >> 1 &^ 1 }

// place is one in the line: a waiter, and the number of its last ask that Redis has.
type place struct{ waiter, number int8 }

// lineState is the state of [Line].
type lineState struct {
	holder, life int8 // of the lock's key; nobody: there is none
	line         [waiters]place
	stand        int8 // how many stand in line
	who          [waiters]waiter
}

// The invariants of [Line].
const (
	noTwoTrust  = "no overlap"
	keyOutlives = "the key outlives trust"
	leftNothing = "nothing left"
	comesToLock = "progress"
)

// invariants are four:
//
//   - No two clients trust their holds at once. Redisson's trusts its own for as long as the key lives.
//   - Nobody trusts a hold for longer than its key lives.
//   - A waiter that has left neither stands in line nor has the lock.
//   - If A waits, it comes to the lock in time, whatever has happened.
func (m Line) invariants() []invariant[lineState] {
	return []invariant[lineState]{
		{noTwoTrust, trustedOnce},
		{keyOutlives, trustedInTime},
		{leftNothing, clean},
		{comesToLock, m.progress},
	}
}

func trustedOnce(s lineState) bool {
	n := 0
	if s.holder == redisson {
		n++
	}
	for i := range s.who {
		if s.who[i].trust > 0 {
			n++
		}
	}
	return n <= 1
}

func trustedInTime(s lineState) bool {
	for i := range s.who {
		if trust := s.who[i].trust; trust > 0 && (s.holder != int8(i) || s.life < trust) {
			return false
		}
	}
	return true
}

func clean(s lineState) bool {
	for i := range int8(waiters) {
		if s.who[i].stage == idle && (s.holder == i || s.at(i) < s.stand) {
			return false
		}
	}
	return true
}

// progress reports whether A comes to the lock, if it waits, and nobody else takes a step from now on: all others
// are dead or deaf, and A has no message either. In time is after what is left of the key's life, and a grant lease for
// each of those before it in line whose connections are open.
func (m Line) progress(s lineState) bool {
	if s.who[waiterA].stage != waiting {
		return true
	}
	var left int8
	if s.holder != nobody && s.holder != waiterA {
		left = min(s.life, lineLease)
	}
	for _, before := range s.line[:s.at(waiterA)] {
		if s.who[before.waiter].stage != killed {
			left += grantLease
		}
	}
	for ; left >= 0; left-- {
		if m.asks(&s, waiterA) && m.ask(&s, waiterA, grantLease) {
			return true
		}
		m.tick(&s)
	}
	return false
}

func (Line) starts() []lineState { return []lineState{{holder: nobody}} }

func (m Line) steps(s lineState, take func(who, what string, next lineState)) {
	for i := range int8(waiters) {
		m.stepsOf(i, s, func(what string, next lineState) { take(waiterNames[i], what, next) })
		m.arrivals(i, s, func(what string, next lineState) { take("Redis", what, next) })
	}
	stepsOfRedisson(s, func(what string, next lineState) { take("Redisson", what, next) })
	m.tick(&s)
	take("the clock", "ticks", s)
}

func (m Line) stepsOf(i int8, s lineState, take func(what string, next lineState)) {
	switch w := s.who[i]; w.stage {
	case idle, leaving:
		if !w.late || m.Without.WaitsAnewEarly {
			next := s
			next.who[i].stage = waiting
			m.sendAsk(&next.who[i])
			take("begins to wait, and asks", next)
		}
		if w.stage == leaving && (w.sends == 0 || m.Without.LeavesEarly) {
			next := s
			m.leave(&next, i)
			next.who[i].stage, next.who[i].late = idle, true
			take("leaves", next)
		}
	case waiting:
		m.stepsOfWaiting(i, s, take)
	case working:
		m.stepsOfWorking(i, s, take)
	case freeing:
		next := s
		m.release(&next, i)
		next.who[i].late = true
		if next.who[i].stage = idle; w.sends != 0 {
			next.who[i].stage = leaving
		}
		take("releases", next)
	case killed:
		return
	}
	if i == mortal {
		m.endWait(&s, i, killed)
		take("is killed, and its connection is closed", s)
	}
}

// asks reports whether a waiter may ask.
func (m Line) asks(s *lineState, i int8) bool { return !m.Without.NeverAsksAgain || s.at(i) == s.stand }

func (m Line) stepsOfWaiting(i int8, s lineState, take func(what string, next lineState)) {
	w := s.who[i]
	if m.asks(&s, i) {
		next := s
		m.sendAsk(&next.who[i])
		take("asks", next)
		next = s
		m.repeatAsk(&next, i)
		take("has no answer, and sends its ask again", next)
	}
	for number := range int8(grantLease + 1) {
		if trust := m.trust(w, number); w.told.has(number) && trust > 0 {
			take("has a message, and begins to work", m.work(s, i, trust))
		}
	}
	if m.Without.BelievesAnyNumber && w.asked > 0 {
		take("has a forged message, and begins to work", m.work(s, i, w.asked))
	}
	if w.answer > 0 {
		take("has a late answer: it holds the lock", m.work(s, i, w.answer))
	}
	m.endWait(&s, i, leaving)
	take("gives up its wait", s)
}

// trust is for how many ticks a hold is trusted that begins with a message.
func (m Line) trust(w waiter, number int8) int8 {
	switch {
	case m.Without.CountsFromArrival:
		return grantLease
	case m.Without.OneNumberAWait:
		return w.asked
	case m.Without.WorksUnconfirmed:
		return number + lineLease - grantLease
	default:
		return number
	}
}

// ages reports whether a number is worth less with each tick.
func (m Line) ages() bool { return !m.Without.CountsFromArrival && !m.Without.OneNumberAWait }

// sendAsk sends an ask, with a number of its own.
func (m Line) sendAsk(w *waiter) {
	if w.sends = w.sends.with(grantLease); !m.Without.OneNumberAWait {
		w.asked = grantLease
	}
}

// repeatAsk sends the last ask again.
func (m Line) repeatAsk(s *lineState, i int8) {
	w := &s.who[i]
	switch {
	case !m.ages():
		w.sends = w.sends.with(grantLease)
	case m.Without.CountsFromRepeat: // its number counts from now on, wherever it is
		if w.told.has(w.asked) {
			w.told = w.told.with(grantLease)
		}
		if at := s.at(i); at < s.stand && s.line[at].number == w.asked {
			s.line[at].number = grantLease
		}
		w.asked = grantLease
		w.sends = w.sends.with(grantLease)
	default:
		w.sends = w.sends.with(w.asked)
	}
}

// endWait ends a wait: its numbers are those of an earlier one from now on.
func (m Line) endWait(s *lineState, i int8, stage waitStage) {
	w := &s.who[i]
	told := w.told
	if *w = (waiter{stage: stage, sends: min(w.sends, 1), late: w.late}); m.Without.BelievesEarlier {
		w.told = told
	}
	if at := s.at(i); at < s.stand {
		s.line[at].number = 0
	}
}

// work begins a hold.
func (m Line) work(s lineState, i, trust int8) lineState {
	m.endWait(&s, i, working)
	s.who[i].trust = trust
	return s
}

func (m Line) stepsOfWorking(i int8, s lineState, take func(what string, next lineState)) {
	if m.Without.LeavesInside {
		next := s
		m.leave(&next, i)
		take("leaves the line", next)
	}
	if s.who[i].trust == 0 {
		s.who[i].stage = leaving
		take("learns that its hold is lost", s)
		return
	}
	if s.holder == i {
		next := s
		next.raise()
		take("renews its hold, and the answer is lost", next)
		next.who[i].trust = lineLease
		take("renews its hold", next)
	}
	s.who[i].stage, s.who[i].trust = freeing, 0
	take("calls Unlock", s)
}
