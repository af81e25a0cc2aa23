package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// The search visits every state of a small world, however many events it takes to get there: owners who acquire, nest and drop holds,
// attempts that run at once, late or never, replies that are lost, callers who ask again or give up, runs that are lost by
// force or for lack of an answer, and keys that expire. The engine's part is played by the methods of party, one for each
// thing that it does; Redis' by serve.

var errTaken, errSilent = errors.New("taken"), errors.New("silent")

// deepest is how many holds an owner has at most.
const deepest = 2

// attempt is one script on its way.
type attempt struct {
	side    int
	acquire bool
	ch      Change
	ran     bool   // it has run; else it may run still
	answer  string // what it came to
	stale   bool   // what it has acquired has expired since
	gone    bool   // the counts were gone when it ran
}

// party is an owner, and the engine around its account.
type party struct {
	account Account[int]
	sides   [2]*Side[int]
	holds   [2][]*Hold[int]
	// The call that has the turn.
	turn       bool
	side       int
	acquire    bool
	ch         Change
	tries      []attempt // of the call
	open       []attempt // of it and of earlier ones
	reconciles bool      // it waits for those that are open
	release    bool      // and is to give back what is left
	again      bool      // something is to be given back once the turn is free
	forced     bool      // the lock was taken from it, and it does not know
	gone       [2]bool   // the counts of a side have expired, or were taken from it
	wronged    bool      // it was told that they are gone, and they were not
}

// world is all of it.
type world struct {
	kind    kind
	parties []*party
	redis   [][2]int // the counts of each party
	forces  int      // how often a lock may be taken by force yet
	// attempts is how many an owner has under way at most.
	attempts int
	calm     bool // no run is lost
}

// kind is which sides a lock has.
type kind struct{ sides []int }

var mutex, readWrite = kind{[]int{0}}, kind{[]int{0, 1}}

func newWorld(k kind, parties, attempts int) *world {
	w := &world{kind: k, redis: make([][2]int, parties), forces: 1, attempts: attempts, calm: parties > 1}
	if w.calm {
		w.forces = 0
	}
	for range parties {
		p := &party{}
		for _, i := range k.sides {
			p.sides[i] = &Side[int]{}
			p.account.Sides[i] = p.sides[i]
		}
		w.parties = append(w.parties, p)
	}
	return w
}

// clone is a deep copy.
func (w *world) clone() *world {
	c := &world{kind: w.kind, redis: slices.Clone(w.redis), forces: w.forces, attempts: w.attempts, calm: w.calm}
	for _, p := range w.parties {
		q := new(party)
		*q = *p
		q.tries, q.open = slices.Clone(p.tries), slices.Clone(p.open)
		for _, i := range w.kind.sides {
			s := new(Side[int])
			*s = *p.sides[i]
			if s.run != nil {
				run := *s.run
				s.run = &run
			}
			s.holds = nil
			for _, h := range p.sides[i].holds {
				copied := *h
				s.holds = append(s.holds, &copied)
			}
			q.sides[i] = s
			q.account.Sides[i] = s
			q.holds[i] = nil
			for _, h := range p.holds[i] { // the user's, which may be forgotten by the side
				if at := slices.Index(p.sides[i].holds, h); at >= 0 {
					q.holds[i] = append(q.holds[i], s.holds[at])
				} else {
					copied := *h
					q.holds[i] = append(q.holds[i], &copied)
				}
			}
		}
		c.parties = append(c.parties, q)
	}
	return c
}

// key tells states apart.
func (w *world) key() string {
	var b []byte
	put := func(numbers ...int) {
		for _, n := range numbers {
			b = append(b, byte(n))
		}
	}
	flags := func(all ...bool) {
		for _, on := range all {
			if on {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	attempts := func(all []attempt) {
		put(len(all))
		for _, a := range all {
			put(a.side, a.ch.From, a.ch.To, a.ch.Confirmed)
			flags(a.acquire, a.ran, a.stale, a.gone)
			b = append(append(b, a.answer...), 0)
		}
	}
	put(w.forces)
	for i, p := range w.parties {
		put(w.redis[i][0], w.redis[i][1], p.side, p.ch.From, p.ch.To, p.ch.Confirmed)
		flags(p.turn, p.acquire, p.reconciles, p.release, p.again, p.forced, p.gone[0], p.gone[1])
		attempts(p.tries)
		attempts(p.open)
		for _, side := range w.kind.sides {
			s := p.sides[side]
			put(int(s.State()), s.possible, s.confirmed, s.openUpTo, len(s.holds), len(p.holds[side]))
			flags(s.Lost() != nil, s.openReleases)
			for _, h := range p.holds[side] {
				flags(h.Lost != nil, slices.Contains(s.holds, h))
			}
		}
	}
	return string(b)
}

// serve runs an attempt, as the scripts do.
func (w *world) serve(of int, a *attempt) {
	count := &w.redis[of][a.side]
	a.ran, a.gone = true, w.parties[of].gone[a.side]
	switch {
	case !a.acquire && *count == 0:
		a.answer = "missing"
	case !a.acquire && (*count > a.ch.From || *count < a.ch.To):
		a.answer = "other"
	case !a.acquire:
		*count, a.answer = a.ch.To, "done"
	case *count == a.ch.To, *count == a.ch.From && w.free(of, a.side):
		*count, a.answer = a.ch.To, "done"
		w.parties[of].gone[a.side] = false
	case a.ch.From == 0 && a.side == 1 && *count == 0 && w.redis[of][0] > 0:
		a.answer = "upgrade"
	case a.ch.From == 0:
		a.answer = "refused"
	default:
		a.answer = "changed"
	}
}

// free reports whether no other owner is in the way, nor the same one on the other side.
func (w *world) free(of, side int) bool {
	for i, counts := range w.redis {
		switch {
		case i == of && (side == 0 || counts[1] > 0 || counts[0] == 0), i != of && counts[1] == 0 && (counts[0] == 0 || len(w.kind.sides) == 2 && side == 0):
		default:
			return false
		}
	}
	return true
}

// begin is what an acquire does with the turn: it gives back first, or asks.
func (p *party) begin(side int) {
	p.turn, p.side = true, side
	if p.giveBack() {
		return
	}
	ch, ok, lost := p.sides[side].Next()
	if !ok || lost != nil {
		p.endCall(false)
		return
	}
	p.ask(side, true, ch)
}

// giveBack asks to give back what is not handed out, if there is such.
func (p *party) giveBack() bool {
	for i, s := range p.sides {
		if s == nil {
			continue
		}
		if ch, found := s.GiveBack(); found {
			p.ask(i, false, ch)
			return true
		}
	}
	return false
}

// owes reports whether there is something to give back on a side: each Unlock sees to its own.
func (p *party) owes(side int) bool {
	s := p.sides[side]
	return s != nil && s.possible > s.Wanted()
}

func (p *party) ask(side int, acquire bool, ch Change) {
	p.side, p.acquire, p.ch, p.reconciles = side, acquire, ch, false
	p.tries = []attempt{{side: side, acquire: acquire, ch: ch}}
}

// endCall ends the call that has the turn. The turn is free at once, if nothing that is open can do harm.
func (p *party) endCall(release bool) {
	for _, a := range p.tries {
		if a.acquire {
			p.sides[a.side].Open(a.ch.To, false)
		} else {
			p.sides[a.side].Open(0, true)
		}
	}
	p.open, p.tries = append(p.open, p.tries...), nil
	p.acquire, p.ch = false, Change{}
	if p.account.Harmless() && !release {
		p.turn, p.reconciles, p.release = false, false, false
		return
	}
	p.reconciles, p.release = true, release
}

// reconciled is what the background does when the open attempts can do nothing any more.
func (p *party) reconciled() {
	ran := p.release
	for _, a := range p.open {
		if a.ran && a.answer == "done" {
			p.sides[a.side].Ran()
			ran = true
		}
	}
	for _, s := range p.sides {
		if s != nil {
			s.CloseAll()
		}
	}
	p.open, p.reconciles, p.release = nil, false, false
	if !ran || !p.giveBack() {
		p.turn = false
	}
}

// answered is what the engine does with a reply.
func (p *party) answered(at int) {
	a := p.tries[at]
	p.tries = slices.Delete(p.tries, at, at+1)
	s := p.sides[a.side]
	switch {
	case a.acquire && a.answer == "done" && (a.stale || s.Lost() != nil):
		s.Stood(a.ch.To)
		p.endCall(true)
	case a.acquire && a.answer == "done":
		h := &Hold[int]{Lease: 1}
		s.Granted(a.ch, h)
		p.holds[a.side] = append(p.holds[a.side], h)
		p.endCall(false)
	case a.acquire && a.answer == "changed":
		p.vanished(s, a)
		p.endCall(false)
	case a.acquire:
		p.endCall(false)
	default:
		repeated := len(p.tries) > 0
		found := map[string]Answer{"done": Done, "missing": Missing, "other": Other}[a.answer]
		if s.Released(a.ch, found, repeated) {
			p.vanished(s, a)
		}
		p.again = p.again || p.owes(1-a.side)
		p.endCall(false)
	}
}

// gaveUp is what the engine does when no attempt of a call was answered.
func (p *party) gaveUp() {
	if !p.acquire {
		p.sides[p.side].Unanswered(p.ch)
	}
	p.endCall(!p.acquire)
}

// vanished is what the engine does when Redis does not know the owner.
func (p *party) vanished(s *Side[int], a attempt) {
	p.wronged = p.wronged || !a.gone
	s.Lose(errTaken, true)
	s.Confirm(0)
}

// drop is Unlock: it takes the turn if that is free, or leaves the rest to the one who has it.
func (p *party) drop(side, at int) {
	h := p.holds[side][at]
	p.holds[side] = slices.Delete(p.holds[side], at, at+1)
	if _, freed := p.sides[side].Drop(h); freed {
		p.again = true
	}
}

// event is something that may happen to an owner, on a side or to one of its attempts.
type event struct {
	owner int
	what  string
	at    int
	do    func(w *world)
}

func (e event) String() string { return fmt.Sprintf("%d %s %d", e.owner, e.what, e.at) }

// events are all that may happen to a world.
func (w *world) events() (all []event) {
	for i, p := range w.parties {
		add := func(what string, at int, do func(w *world)) { all = append(all, event{i, what, at, do}) }
		for _, side := range w.kind.sides {
			s := p.sides[side]
			if !p.turn && len(p.holds[0])+len(p.holds[1]) < deepest {
				add("acquires", side, func(w *world) { w.parties[i].begin(side) })
			}
			for at := range p.holds[side] {
				add("drops on side "+[]string{"0", "1"}[side], at, func(w *world) { w.parties[i].drop(side, at) })
			}
			if s.State() == Held || s.State() == Surplus {
				if p.forced {
					add("hears that it was taken", side, func(w *world) { w.parties[i].sides[side].Lose(errTaken, true) })
				}
				if !w.calm {
					add("trusts no more", side, func(w *world) { w.parties[i].sides[side].Lose(errSilent, false) })
				}
			}
			if s.State() == Lost && (s.run.taken || w.redis[i][side] == 0) {
				add("forgets", side, func(w *world) {
					s := w.parties[i].sides[side]
					if _, _, owes := s.Forget(s.run, w.redis[i][side] > 0); owes {
						w.parties[i].again = true
					}
				})
			}
		}
		if p.again && !p.turn {
			add("gives back", 0, func(w *world) {
				p := w.parties[i]
				p.turn, p.again = true, false
				if !p.giveBack() {
					p.endCall(false)
				}
			})
		}
		for at := range p.tries {
			if !p.tries[at].ran {
				add("has an attempt run", at, func(w *world) { w.serve(i, &w.parties[i].tries[at]) })
			} else {
				add("is answered", at, func(w *world) { w.parties[i].answered(at) })
			}
		}
		if n := len(p.tries); n > 0 && n+len(p.open) < w.attempts {
			add("asks again", 0, func(w *world) {
				p := w.parties[i]
				p.tries = append(p.tries, attempt{side: p.side, acquire: p.acquire, ch: p.ch})
			})
		}
		if len(p.tries) > 0 {
			add("gives up", 0, func(w *world) { w.parties[i].gaveUp() })
		}
		pending := false
		for at, a := range p.open {
			if !a.ran {
				pending = true
				add("has an open attempt run", at, func(w *world) { w.serve(i, &w.parties[i].open[at]) })
				add("has an open attempt expire", at, func(w *world) {
					a := &w.parties[i].open[at]
					a.ran, a.answer = true, "late"
				})
			}
		}
		if p.reconciles && !pending {
			add("reconciles", 0, func(w *world) { w.parties[i].reconciled() })
		}
		if w.redis[i] != [2]int{} && !w.trusted(i) && !w.calm {
			add("has its key expire", 0, func(w *world) { w.expire(i) })
		}
		if w.redis[i] != [2]int{} && w.forces > 0 {
			add("is robbed", 0, func(w *world) {
				w.forces--
				w.expire(i)
				w.parties[i].forced = w.trusted(i)
			})
		}
	}
	return all
}

// trusted reports whether a party trusts any hold.
func (w *world) trusted(i int) bool {
	return slices.ContainsFunc(w.parties[i].sides[:], func(s *Side[int]) bool { return s != nil && s.Live() > 0 })
}

// expire takes what stands of a party out of Redis.
func (w *world) expire(i int) {
	w.redis[i] = [2]int{}
	p := w.parties[i]
	p.gone = [2]bool{true, true}
	for at := range p.tries {
		p.tries[at].stale = p.tries[at].stale || p.tries[at].ran
	}
}

// wrong is what is wrong in a state; empty if nothing is.
func (w *world) wrong() string {
	for i, p := range w.parties {
		if p.wronged {
			return fmt.Sprintf("owner %d was told that its counts are gone, and they were not", i)
		}
		if !w.trusted(i) {
			p.forced = false
		}
		for _, side := range w.kind.sides {
			s, stands := p.sides[side], w.redis[i][side]
			trusted := 0
			for _, h := range p.holds[side] {
				if h.Lost == nil {
					trusted++
				}
			}
			if !p.forced && stands < trusted {
				return fmt.Sprintf("owner %d trusts %d holds of side %d, and %d counts stand", i, trusted, side, stands)
			}
			if !p.turn && !p.again && s.Lost() == nil && stands > s.possible {
				return fmt.Sprintf("%d counts of owner %d stand on side %d, and it knows of %d", stands, i, side, s.possible)
			}
			if s.Live() == 0 || p.forced {
				continue
			}
			for j, q := range w.parties {
				if j != i && !q.forced && (q.sides[1] != nil && q.sides[1].Live() > 0 || side == 1 && q.sides[0].Live() > 0 || len(w.kind.sides) == 1 && q.sides[0].Live() > 0) {
					return fmt.Sprintf("owners %d and %d hold at once", i, j)
				}
			}
		}
	}
	return ""
}

// unlikely are events that do not happen in the end.
var unlikely = []string{"acquires", "gives up", "asks again", "has an open attempt run", "has its key expire", "is robbed"}

// finish has everything come to an end, and says what is left.
func (w *world) finish() string {
	for range 100 {
		for _, p := range w.parties {
			for _, side := range w.kind.sides {
				for len(p.holds[side]) > 0 {
					p.drop(side, 0)
				}
			}
		}
		all := w.events()
		i := slices.IndexFunc(all, func(e event) bool { return !slices.Contains(unlikely, e.what) })
		if i < 0 {
			break
		}
		all[i].do(w)
	}
	for i, p := range w.parties {
		for _, side := range w.kind.sides {
			if w.redis[i][side] > 0 || p.sides[side].State() != Free || p.turn {
				return fmt.Sprintf("in the end %d counts of owner %d stand, its side %d is %v, and its turn is taken: %v", w.redis[i][side], i, side, p.sides[side].State(), p.turn)
			}
		}
	}
	return ""
}

// search visits every state, and reports the shortest way to one that is wrong.
func search(t *testing.T, start *world) (states int) {
	type step struct {
		w    *world
		path []event
	}
	seen := map[string]bool{start.key(): true}
	for level := []step{{w: start}}; len(level) > 0; {
		var next []step
		for _, at := range level {
			for _, e := range at.w.events() {
				w := at.w.clone()
				e.do(w)
				wrong, key := w.wrong(), w.key()
				if wrong == "" && seen[key] {
					continue
				}
				seen[key] = true
				if wrong == "" {
					wrong = w.clone().finish()
				}
				path := append(slices.Clip(at.path), e)
				if wrong != "" {
					t.Fatalf("%s, after: %v", wrong, path)
				}
				next = append(next, step{w, path})
			}
		}
		level = next
	}
	return len(seen)
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name              string
		kind              kind
		parties, attempts int
	}{
		{"one owner of a mutex", mutex, 1, 3},
		{"one owner of a read-write lock", readWrite, 1, 2},
		{"two owners of a mutex", mutex, 2, 1},
		{"two owners of a read-write lock", readWrite, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%d states", search(t, newWorld(c.kind, c.parties, c.attempts)))
		})
	}
}
