package protocol

import "slices"

const (
	handOverLease = 3 // in ticks
	// sendLimit is for how long Redis takes a send: its limit, ARGV[1] of each script.
	sendLimit = 2
	// resends is how many calls are sent once more, because no answer has come.
	resends = 1
)

// Rules are those of the implementation, each a field that drops it. The zero value has all.
// README.md says what keeps each in the code.
type Rules struct {
	NestedDoesNotLook bool // a nested Lock does not look whether its outer hold still stands
	PassesUnclean     bool // a hold passes on while calls of its owner may still have an effect
	PassesNested      bool // a hold passes on though another is nested in it
	PassesKnown       bool // a hold passes on though its owner is known
	GivesToTrying     bool // the lock is given to one whose own try is under way
	GivesInTwoSteps   bool // to choose the next one and to give are two steps
	TrustsAnew        bool // the next one counts its deadline from when it got the hold
	FreesTurnEarly    bool // the turn is free as soon as one send of a call is answered
	NoLimit           bool // Redis takes a send at any time
	NoCleanup         bool // nobody gives back what a call has taken that was not answered
	DetachesUnclean   bool // a hold is detached while calls of its owner may still have an effect
	NotRetired        bool // the client may lock as an owner whose hold was detached
}

// HandOver is one lock and two processes. In the first, goroutine A takes the lock, N takes it nested in
// A's hold, or as A's owner, and B waits for A to give it back. In the second, Q takes it, or adopts
// what A has detached.
type HandOver struct{ Without Rules }

// owner is what stands in Redis.
type owner int8

const (
	none owner = iota
	ownA       // made by A's Lock, and inherited by B if the hold passes on
	ownB       // made by B's Lock
	ownQ       // the other process's
)

// stage is where a goroutine is on its way.
type stage int8

const (
	away     stage = iota
	waits          // for its turn: N for account.turn, B in the queue
	asks           // its acquire is under way
	inside         // it holds the lock
	chooses        // A has chosen B, and not given yet; with GivesInTwoSteps
	leaves         // it is about to release
	releases       // its release is under way
	done
)

// goroutine is one that uses the lock.
type goroutine struct {
	stage stage
	trust int8 // how many ticks it trusts its hold for
	call  send // under way; its limit is not kept
	sends int8 // how many there are of it
}

func (g *goroutine) trusts() bool { return g.stage == inside && g.trust > 0 }

// callKind is what a send asks for.
type callKind int8

const (
	acquire callKind = iota + 1
	release
)

// send is a script on its way to Redis.
type send struct {
	kind     callKind
	by       int8 // whose call it is
	owner    owner
	from, to int8
	left     int8 // how long until its limit
}

// The goroutines.
const (
	goA int8 = iota
	goN
	goB
	goQ
)

// wireRoom is for how many sends there is room.
const wireRoom = 4

// processes is the state of [HandOver].
type processes struct {
	// The lock's key in Redis.
	holder owner
	count  int8
	life   int8

	who  [4]goroutine
	wire [wireRoom]send

	// What the first process knows of A's owner (account) and of B's.
	sem     int8 // which goroutine has A's account.turn; nobodyGo: it is free
	counts  int8 // Side.possible of A's owner
	unsure  bool // side.inDoubt, or progress.unknown: sends of A's owner were not answered
	unsureB bool // the same of B's
	known   bool // somebody has asked for A's owner: Hold.Owner
	asOwner bool // N locks as A's owner, and not nested in A's hold
	bAsA    bool // B stands under A's owner

	detached bool // A has, and nobody has adopted
	retired  bool // nobody may lock as A's owner
	resent   int8
	untrue   bool // somebody was told that a hold is lost, and it was not
}

const (
	nobodyGo int8 = -1
	cleaner  int8 = 9 // account.freeTurn's goroutine
)

// noOverlap: two parties never trust their holds at once. A and N are one owner.
var noOverlap = invariant[processes]{"no overlap", func(s processes) bool {
	n := 0
	if s.who[goA].trusts() || s.who[goN].trusts() {
		n++
	}
	for _, g := range []int8{goB, goQ} {
		if s.who[g].trusts() {
			n++
		}
	}
	return n <= 1
}}

// nothingLeft: when all are done, and no clean-up is to come, nobody holds the lock in Redis.
var nothingLeft = invariant[processes]{"nothing left", func(s processes) bool {
	for _, g := range []int8{goA, goN, goB} {
		if st := s.who[g].stage; st != done && (st != away || g == goA) {
			return true
		}
	}
	return s.holder == none || s.holder == ownQ || s.unsure || s.unsureB || s.detached
}}

// noFalseLoss: nobody is told that a hold is lost which is not.
var noFalseLoss = invariant[processes]{"no false loss", func(s processes) bool { return !s.untrue }}

func (HandOver) starts() []processes { return []processes{{sem: nobodyGo}} }

var goNames = [4]string{"A", "N", "B", "Q"}

func (m HandOver) steps(s processes, simplified func(who, what string, next processes)) {
	take := func(who, what string, next processes) {
		next.simplify()
		simplified(who, what, next)
	}
	by := func(g int8) func(what string, next processes) {
		return func(what string, next processes) { take(goNames[g], what, next) }
	}
	m.stepsOfA(s, by(goA))
	m.stepsOfN(s, by(goN))
	m.stepsOfB(s, by(goB))
	m.stepsOfQ(s, by(goQ))
	m.resend(s, take)
	for i, on := range s.wire {
		if on.kind != 0 && (i == 0 || on != s.wire[i-1]) {
			m.arrive(s, i, take)
		}
	}
	m.cleanUp(s, take)
	m.tick(s, take)
}

// start has a goroutine make a call.
func (s *processes) start(g int8, at stage, call send) {
	call.by = g
	s.who[g] = goroutine{stage: at, trust: s.who[g].trust, call: call}
	s.put(g)
}

// simplify makes one state of all that differ in what does not matter any more.
func (s *processes) simplify() {
	a, n := s.who[goA].stage, s.who[goN].stage
	if n > waits {
		s.asOwner, s.retired = false, false
		s.known = s.known && a <= inside
	}
	if a == done && n == done && s.who[goB].stage == done {
		s.resent, s.counts = resends, 0
	}
}

// put sends a goroutine's call.
func (s *processes) put(g int8) {
	s.who[g].sends++
	on := s.who[g].call
	on.left = sendLimit
	if s.wire[wireRoom-1].kind != 0 {
		panic("there is no room for another send")
	}
	s.wire[wireRoom-1] = on
	s.sort()
}

// sort makes one state of all in which the same sends stand in another order.
func (s *processes) sort() {
	slices.SortFunc(s.wire[:], func(a, b send) int { return b.weight() - a.weight() })
}

func (on send) weight() int {
	if on.kind == 0 {
		return 0
	}
	w := 0
	for _, part := range []int8{int8(on.kind), on.by, int8(on.owner), on.from, on.to, on.left} {
		w = 8*w + int(part)
	}
	return w
}

// needed is how many counts of A's owner the holds of this process need: Side.Wanted.
func (s *processes) needed() (n int8) {
	for _, g := range []int8{goA, goN, goB} {
		if st := s.who[g].stage; (st == inside || st == chooses) && (g != goB || s.bAsA) {
			n++
		}
	}
	return n
}

// quiet reports whether no call of A's owner can have an effect any more, as far as the process knows.
func (s *processes) quiet() bool { return s.sem == nobodyGo && !s.unsure }

// begin has a goroutine ask for one count more.
func (s *processes) begin(g int8, as owner, from int8) {
	s.start(g, asks, send{kind: acquire, owner: as, from: from, to: from + 1})
}

// giveBack has a goroutine give back what nobody needs of A's owner, if it can: side.unlock and
// side.giveBack.
func (s *processes) giveBack(g int8, take func(what string, next processes)) {
	switch {
	case s.counts <= s.needed():
		s.who[g] = goroutine{stage: done}
		take("finds that its hold was given back", *s)
	case s.sem == nobodyGo:
		s.sem = g
		s.start(g, releases, send{kind: release, owner: ownA, from: s.counts, to: s.needed()})
		take("releases", *s)
	}
}

// giveUp ends a goroutine's acquire whose context has ended.
func (s *processes) giveUp(g int8) {
	s.who[g] = goroutine{stage: done}
	if g == goB {
		s.unsureB = true
		return
	}
	s.unsure = true
	s.sem = cleaner
}

func (m HandOver) stepsOfA(s processes, take func(what string, next processes)) {
	a := &s.who[goA]
	switch a.stage {
	case away:
		next := s
		next.sem = goA
		next.begin(goA, ownA, 0)
		take("calls Lock", next)
	case asks:
		next := s
		next.giveUp(goA)
		take("gives up its Lock", next)
	case inside:
		if !s.known {
			next := s
			next.known = true
			take("asks for its owner, and tells it", next)
		}
		m.unlockA(s, take)
		m.detachA(s, take)
	case chooses:
		next := s
		next.who[goA] = goroutine{stage: done}
		if next.who[goB].stage == waits {
			m.give(&next)
		}
		take("gives the hold to B", next)
	case leaves:
		s.giveBack(goA, take)
	default:
	}
}

// unlockA is engine.Hold.Unlock: the hold passes on, or is released.
func (m HandOver) unlockA(s processes, take func(what string, next processes)) {
	if m.mayPass(&s) {
		next := s
		if m.Without.GivesInTwoSteps {
			next.who[goA].stage = chooses
			take("calls Unlock, and chooses B", next)
		} else {
			next.who[goA] = goroutine{stage: done, trust: s.who[goA].trust}
			m.give(&next)
			take("calls Unlock: its hold passes on to B", next)
		}
		return
	}
	s.who[goA].stage = leaves
	take("calls Unlock", s)
}

// mayPass is Hold.mayPass and Queues.HandOver.
func (m HandOver) mayPass(s *processes) bool {
	without, b := &m.Without, s.who[goB].stage
	return s.who[goA].trust > 0 &&
		(b == waits || b == asks && without.GivesToTrying) &&
		(s.needed() == 1 && s.counts == 1 || without.PassesNested) &&
		(s.quiet() || without.PassesUnclean) &&
		(!s.known || without.PassesKnown)
}

// give makes A's hold B's.
func (m HandOver) give(s *processes) {
	trust := s.who[goA].trust
	if m.Without.TrustsAnew {
		trust = handOverLease
	}
	s.who[goA].trust = 0
	s.who[goB] = goroutine{stage: inside, trust: trust}
	s.bAsA = true
}

// detachA is engine.Hold.Detach.
func (m HandOver) detachA(s processes, take func(what string, next processes)) {
	if s.who[goA].trust == 0 || s.needed() != 1 || s.counts != 1 {
		return
	}
	if !s.quiet() && !m.Without.DetachesUnclean {
		return // it waits for that, or fails
	}
	s.who[goA] = goroutine{stage: done}
	s.counts, s.unsure = 0, false
	s.detached, s.known, s.retired = s.holder == ownA, true, !m.Without.NotRetired
	take("detaches its hold, and tells its owner", s)
}

func (m HandOver) stepsOfN(s processes, take func(what string, next processes)) {
	n := &s.who[goN]
	switch n.stage {
	case away:
		next := s
		next.who[goN].stage = waits
		if s.who[goA].stage == inside {
			take("calls Lock under A's hold", next)
		}
		if s.known {
			next.asOwner = true
			take("calls Lock as A's owner", next)
		}
	case waits:
		m.turnOfN(s, take)
	case asks:
		s.giveUp(goN)
		take("gives up its Lock", s)
	case inside:
		s.who[goN].stage = leaves
		take("calls Unlock", s)
	case leaves:
		s.giveBack(goN, take)
	default:
	}
}

// turnOfN is what acquisition.takeTurn does once N has account.turn.
func (m HandOver) turnOfN(s processes, take func(what string, next processes)) {
	stands := s.asOwner || s.who[goA].stage == inside || m.Without.NestedDoesNotLook
	switch {
	case s.sem != nobodyGo:
	case !stands, s.asOwner && s.retired:
		s.who[goN] = goroutine{stage: done}
		take("is refused: that hold is over", s)
	default:
		s.sem = goN
		s.begin(goN, ownA, s.needed())
		take("has its turn", s)
	}
}

func (m HandOver) stepsOfB(s processes, take func(what string, next processes)) {
	b := &s.who[goB]
	switch b.stage {
	case away:
		s.who[goB].stage = waits
		take("calls Lock, and stands in the queue", s)
	case waits:
		next := s
		next.who[goB] = goroutine{stage: done}
		take("gives up its Lock", next)
		s.begin(goB, ownB, 0)
		take("tries", s)
	case asks:
		s.giveUp(goB)
		take("gives up its Lock", s)
	case inside:
		s.who[goB].stage = leaves
		take("calls Unlock", s)
	case leaves:
		if s.bAsA {
			s.giveBack(goB, take)
			return
		}
		s.start(goB, releases, send{kind: release, owner: ownB, from: 1, to: 0})
		take("releases", s)
	default:
	}
}

// stepsOfQ are those of the other process. What it asks is answered at once: what may go wrong with
// that, A and B show.
func (m HandOver) stepsOfQ(s processes, take func(what string, next processes)) {
	q := &s.who[goQ]
	switch {
	case q.stage == inside:
		if s.holder == ownQ {
			s.free()
		}
		s.who[goQ] = goroutine{}
		take("gives the lock back", s)
	case s.holder == none:
		s.take(ownQ, 1)
		s.who[goQ] = goroutine{stage: inside, trust: handOverLease}
		take("takes the lock", s)
	case s.holder == ownA && s.detached: // adopt.lua
		s.take(ownQ, 1)
		s.detached = false
		s.who[goQ] = goroutine{stage: inside, trust: handOverLease}
		take("adopts the lock", s)
	}
}
