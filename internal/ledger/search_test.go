package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// The search visits every state of a small world, however many events it takes to get there: owners who acquire, nest and drop holds,
// attempts that run at once, late or never, replies that are lost, callers who ask again or give up, runs that are lost by
// force or for lack of an answer, keys that expire, and waiters that Redis lists when it refuses them. The engine's part is played by
// the methods of party, one for each thing that it does; Redis' by serve.

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
	unknown bool   // a later attempt was answered: its own reply is of no use
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
	refused    bool      // the call waits, since it was refused
	clears     bool      // the call gives back, and acquires after that
	next       int       // the side that it acquires then
	tries      []attempt // of the call
	open       []attempt // of it and of earlier ones
	reconciles bool      // it waits for those that are open
	release    bool      // and is to give back what is left
	leaves     []leave   // beside it
	again      bool      // something is to be given back once the turn is free
	detached   bool      // it has nothing to do with what stands any more
	abandons   bool      // it has given up a release, since the key has expired
	forced     bool      // the lock was taken from it, and it does not know
	gone       [2]bool   // the counts of a side have expired, or were taken from it
	wronged    bool      // it was told that they are gone, and they were not
}

// leave is a leave request on its way. It may run more than once.
type leave struct {
	side int
	ran  bool
}

// world is all of it.
type world struct {
	kind    kind
	parties []*party
	redis   [][2]int  // the counts of each party
	listed  [][2]bool // those for whose waiter there is an entry
	another bool      // an owner that is no party holds the lock
	forces  int       // how often a lock may be taken by force yet
	// attempts is how many an owner has under way at most.
	attempts int
	calm     bool // no run is lost
}

// kind is which sides a lock has, and whether Redis lists the waiters that it refuses.
type kind struct {
	sides []int
	lists bool
}

var (
	mutex, readWrite             = kind{sides: []int{0}}, kind{sides: []int{0, 1}}
	listedMutex, listedReadWrite = kind{sides: []int{0}, lists: true}, kind{sides: []int{0, 1}, lists: true}
)

func newWorld(k kind, parties, attempts int) *world {
	w := &world{
		kind: k, redis: make([][2]int, parties), listed: make([][2]bool, parties), forces: 1, attempts: attempts, calm: parties > 1,
	}
	if w.calm || k.lists { // a lock that is taken by force changes nothing for a waiter
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
	c := new(world)
	*c = *w
	c.redis, c.listed, c.parties = slices.Clone(w.redis), slices.Clone(w.listed), nil
	for _, p := range w.parties {
		q := new(party)
		*q = *p
		q.tries, q.open, q.leaves = slices.Clone(p.tries), slices.Clone(p.open), slices.Clone(p.leaves)
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
			flags(a.acquire, a.ran, a.stale, a.gone, a.unknown)
			b = append(append(b, a.answer...), 0)
		}
	}
	put(w.forces)
	flags(w.another)
	for i, p := range w.parties {
		put(w.redis[i][0], w.redis[i][1], p.side, p.ch.From, p.ch.To, p.ch.Confirmed, p.next)
		flags(p.turn, p.acquire, p.reconciles, p.release, p.again, p.forced, p.gone[0], p.gone[1])
		flags(w.listed[i][0], w.listed[i][1], p.refused, p.clears, p.detached, p.abandons)
		attempts(p.tries)
		attempts(p.open)
		put(len(p.leaves))
		for _, l := range p.leaves {
			put(l.side)
			flags(l.ran)
		}
		for _, side := range w.kind.sides {
			s := p.sides[side]
			put(int(s.State()), s.possible, s.confirmed, s.openUpTo, len(s.holds), len(p.holds[side]))
			flags(s.Lost() != nil, s.openReleases, s.listed, s.left)
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
		if *count == 0 {
			w.listed[of][a.side] = false
		}
		*count, a.answer = a.ch.To, "done"
		w.parties[of].gone[a.side] = false
	case a.ch.From == 0 && a.side == 1 && *count == 0 && w.redis[of][0] > 0:
		a.answer = "upgrade"
	case a.ch.From == 0:
		a.answer = "refused"
		w.listed[of][a.side] = w.kind.lists
	default:
		a.answer = "changed"
	}
}

// grant has Redis give the lock to a waiter that is listed.
func (w *world) grant(to, side int) {
	w.redis[to][side], w.listed[to][side] = 1, false
	w.parties[to].gone[side] = false
}

// serveLeave runs a leave: it also gives back what was granted meanwhile.
func (w *world) serveLeave(of int, l *leave) {
	l.ran, w.listed[of][l.side] = true, false
	if w.redis[of][l.side] == 1 {
		w.redis[of][l.side] = 0
	}
}

// free reports whether no other owner is in the way, nor the same one on the other side.
func (w *world) free(of, side int) bool {
	if w.another {
		return false
	}
	for i, counts := range w.redis {
		switch {
		case i == of && (side == 0 || counts[1] > 0 || counts[0] == 0), i != of && counts[1] == 0 && (counts[0] == 0 || len(w.kind.sides) == 2 && side == 0):
		default:
			return false
		}
	}
	return true
}

// begin is what an acquire does with the turn: it gives back first, or asks. It goes on from the one to the other only if it may
// be listed: elsewhere that changes nothing.
func (w *world) begin(p *party, side int) {
	p.turn, p.side = true, side
	if p.giveBack() {
		p.clears = w.kind.lists && p.settled()
		if p.clears {
			p.next = side
		}
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

// settled reports whether nothing that is open can have an effect any more.
func (p *party) settled() bool {
	return !slices.ContainsFunc(p.open, func(a attempt) bool { return !a.ran })
}

// owes reports whether there is something to give back on a side: each Unlock sees to its own.
func (p *party) owes(side int) bool {
	s := p.sides[side]
	return s != nil && s.possible > s.Wanted()
}

func (p *party) ask(side int, acquire bool, ch Change) {
	p.side, p.acquire, p.ch, p.reconciles, p.refused, p.clears, p.next = side, acquire, ch, false, false, false, 0
	p.tries = []attempt{{side: side, acquire: acquire, ch: ch}}
}

// waits reports whether the call is one that Redis lists when it refuses it.
func (w *world) waits(p *party) bool { return w.kind.lists && p.acquire && p.ch.From == 0 }

// addInDoubt keeps what the call that has the turn leaves: attempts, and perhaps an entry.
func (p *party) addInDoubt(entry bool) {
	for _, a := range p.tries {
		if a.acquire {
			p.sides[a.side].Open(a.ch.To, false)
		} else {
			p.sides[a.side].Open(0, true)
		}
	}
	if entry {
		p.sides[p.side].MarkListed()
	}
	p.open, p.tries = append(p.open, p.tries...), nil
	p.acquire, p.ch, p.refused, p.clears, p.next = false, Change{}, false, false, 0
}

// endCall frees the turn at once, if nothing that is open can do harm, and no leave is due.
func (p *party) endCall(release bool) {
	p.addInDoubt(false)
	if p.account.Harmless() && !release {
		p.turn, p.reconciles, p.release = false, false, false
		return
	}
	p.reconciles, p.release = true, release
	for i, s := range p.sides {
		if s != nil && s.StartLeave() {
			p.leaves = append(p.leaves, leave{side: i})
		}
	}
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
		p.endCall(false)
	}
}

// answered is what the engine does with a reply.
func (w *world) answered(p *party, at int) {
	a := p.tries[at]
	p.tries = slices.Delete(p.tries, at, at+1)
	s := p.sides[a.side]
	inDoubt := w.waits(p) && len(p.tries) > 0
	switch {
	case a.acquire && a.answer == "done" && (a.stale || s.Lost() != nil):
		s.Stood(a.ch.To)
		p.addInDoubt(inDoubt)
		p.endCall(true)
	case a.acquire && a.answer == "done":
		h := &Hold[int]{Lease: 1}
		s.Granted(a.ch, h)
		p.holds[a.side] = append(p.holds[a.side], h)
		p.addInDoubt(inDoubt)
		p.endCall(false)
	case a.answer == "refused" && w.waits(p):
		p.refused = true
		for i := range p.tries {
			p.tries[i].unknown = true
		}
	case a.acquire:
		if a.answer == "changed" {
			p.vanished(s, a)
		}
		p.addInDoubt(inDoubt || p.refused)
		p.endCall(false)
	default:
		repeated := len(p.tries) > 0
		found := map[string]Answer{"done": Done, "missing": Missing, "other": Other}[a.answer]
		if s.Released(a.ch, found, repeated) {
			p.vanished(s, a)
		}
		p.again = p.again || p.owes(1-a.side)
		if p.clears && !repeated {
			w.begin(p, p.next)
			return
		}
		p.endCall(false)
	}
}

// gaveUp is what the engine does when no attempt of a call was answered, or none with what it waits for.
func (w *world) gaveUp(p *party) {
	release := !p.acquire
	if release {
		p.sides[p.side].Unanswered(p.ch)
	}
	p.addInDoubt(w.waits(p) && (len(p.tries) > 0 || p.refused))
	p.endCall(release)
}

// abandon is what the engine does when no release was answered until the key had expired.
func (p *party) abandon() {
	p.sides[p.side].Unanswered(p.ch)
	p.abandons = true
	p.endCall(false)
}

// detachable reports whether the account may end, and leave its one hold as it stands.
func (p *party) detachable(side int) bool {
	s, other := p.sides[side], p.sides[1-side]
	return !p.turn && p.settled() && s.Live() == 1 && s.Possible() == 1 && (other == nil || other.Possible() == 0)
}

// detach is what the engine does with the turn then.
func (p *party) detach(side int) {
	p.sides[side].Drop(p.holds[side][0])
	for _, s := range p.sides {
		if s != nil {
			s.CloseAll()
			s.ClearListed()
		}
	}
	p.sides[side].Confirm(0)
	p.holds[side], p.open, p.detached = nil, nil, true
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
	switch {
	case w.another:
		all = append(all, event{-1, "releases it", 0, func(w *world) { w.another = false }})
	case w.kind.lists && len(w.parties) == 1 && w.redis[0] == [2]int{}:
		all = append(all, event{-1, "takes it", 0, func(w *world) { w.another = true }})
	}
	for i, p := range w.parties {
		add := func(what string, at int, do func(w *world)) { all = append(all, event{i, what, at, do}) }
		for _, side := range w.kind.sides {
			s := p.sides[side]
			if !p.turn && !p.detached && len(p.holds[0])+len(p.holds[1]) < deepest {
				add("acquires", side, func(w *world) { w.begin(w.parties[i], side) })
			}
			for at := range p.holds[side] {
				add("drops on side "+[]string{"0", "1"}[side], at, func(w *world) { w.parties[i].drop(side, at) })
			}
			if w.kind.lists && p.detachable(side) {
				add("detaches", side, func(w *world) { w.parties[i].detach(side) })
			}
			if w.listed[i][side] && w.redis[i][side] == 0 && w.free(i, side) {
				add("is granted", side, func(w *world) { w.grant(i, side) })
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
			} else if !p.tries[at].unknown {
				add("is answered", at, func(w *world) { w.answered(w.parties[i], at) })
			}
		}
		for at, l := range p.leaves {
			again := ""
			if l.ran {
				again = " again"
			}
			add("has a leave run"+again, at, func(w *world) { w.serveLeave(i, &w.parties[i].leaves[at]) })
			if l.ran {
				add("has left", at, func(w *world) { p := w.parties[i]; p.leaves = slices.Delete(p.leaves, at, at+1) })
			}
		}
		if n := len(p.tries); (n > 0 || p.refused) && n+len(p.open) < w.attempts {
			add("asks again", 0, func(w *world) {
				p := w.parties[i]
				p.tries = append(p.tries, attempt{side: p.side, acquire: p.acquire, ch: p.ch})
			})
		}
		switch {
		case p.refused:
			add("stops waiting", 0, func(w *world) { w.gaveUp(w.parties[i]) })
		case len(p.tries) > 0:
			add("gives up", 0, func(w *world) { w.gaveUp(w.parties[i]) })
		}
		if len(p.tries) > 0 && !p.acquire && p.sides[p.side].left && w.redis[i] == [2]int{} && p.gone[p.side] {
			add("abandons a release", 0, func(w *world) { w.parties[i].abandon() })
		}
		for at, a := range p.open {
			if !a.ran {
				add("has an open attempt run", at, func(w *world) { w.serve(i, &w.parties[i].open[at]) })
				add("has an open attempt expire", at, func(w *world) {
					a := &w.parties[i].open[at]
					a.ran, a.answer = true, "late"
				})
			}
		}
		if p.reconciles && p.settled() && len(p.leaves) == 0 {
			add("reconciles", 0, func(w *world) { w.parties[i].reconciled() })
		}
		if w.redis[i] != [2]int{} && !p.detached && !w.trusted(i) && !w.calm {
			add("has its key expire", 0, func(w *world) { w.expire(i) })
		}
		if w.redis[i] != [2]int{} && !p.detached && w.forces > 0 {
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
		if p.detached && len(p.tries)+len(p.leaves) > 0 {
			return fmt.Sprintf("owner %d was detached, and it sends requests", i)
		}
		if len(p.leaves) > 0 && !p.turn {
			return fmt.Sprintf("the turn of owner %d is free, and it leaves", i)
		}
		for _, l := range p.leaves {
			if p.sides[l.side].Live() > 0 {
				return fmt.Sprintf("owner %d leaves, and holds side %d", i, l.side)
			}
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
			if !p.turn && !p.again && !p.detached && s.Lost() == nil && stands > s.possible {
				return fmt.Sprintf("%d counts of owner %d stand on side %d, and it knows of %d", stands, i, side, s.possible)
			}
			if !p.turn && !s.listed && w.mayBeListed(i, side) {
				return fmt.Sprintf("owner %d is listed on side %d, or will be, and it does not know", i, side)
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

// mayBeListed reports whether a waiter of an owner is listed, or an open attempt may list it.
func (w *world) mayBeListed(i, side int) bool {
	return !w.parties[i].detached && w.kind.lists && (w.listed[i][side] || slices.ContainsFunc(w.parties[i].open, func(a attempt) bool {
		return a.side == side && a.acquire && a.ch.From == 0 && !a.ran
	}))
}

// unlikely are events that do not happen in the end.
var unlikely = []string{
	"acquires", "gives up", "asks again", "abandons a release", "detaches", "has an open attempt run", "has a leave run again", "has its key expire", "is robbed", "takes it",
}

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
		if p.detached {
			continue
		}
		if w.listed[i] != [2]bool{} || len(p.leaves) > 0 {
			return fmt.Sprintf("in the end owner %d is listed, or has not left: %v, %v", i, w.listed[i], p.leaves)
		}
		for _, side := range w.kind.sides {
			if state := p.sides[side].State(); w.redis[i][side] > 0 || state != Free && (state != Owed || !p.abandons) || p.turn {
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
		{"one owner of a mutex that lists its waiters", listedMutex, 1, 2},
		{"two owners of a mutex that lists its waiters", listedMutex, 2, 1},
		{"one owner of a read-write lock that lists its waiters", listedReadWrite, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%d states", search(t, newWorld(c.kind, c.parties, c.attempts)))
		})
	}
}
