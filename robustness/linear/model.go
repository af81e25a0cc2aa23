package linear

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/robustness/history"
)

// Model is how a kind of lock behaves.
type Model struct {
	// Reentrant: the owner of a hold may have others, nested in it.
	Reentrant bool
	// Shared: holds with [history.Op.Shared] may stand together.
	Shared bool
	// Fenced: each grant has a greater token than those before.
	Fenced bool
	// Permits is how many may be held together; 0 is 1.
	Permits int
	// InLine: who tries is refused while others wait.
	InLine bool
	// Latch: it is a count, and has no holds.
	Latch bool
}

// The models.
var (
	Mutex     = Model{InLine: true}
	Reentrant = Model{Reentrant: true, InLine: true}
	ReadWrite = Model{Reentrant: true, Shared: true, InLine: true}
	Fenced    = Model{Reentrant: true, Fenced: true, InLine: true}
	Latch     = Model{Latch: true}
)

// Semaphore is the model of a semaphore with so many permits.
func Semaphore(permits int) Model { return Model{Permits: permits, InLine: true} }

// maxHolds is how many holds a part of a history can have.
const maxHolds = 512

// set is a set of holds, by their numbers.
type set [maxHolds / 64]uint64

func (s *set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s *set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *set) remove(i int)   { s[i/64] &^= 1 << (i % 64) }

// state is that of a lock, or of a latch. States are compared.
type state struct {
	held  set
	token int64          // the greatest so far
	now   history.Moment // it is not earlier than this
	count int            // a latch's
}

// hold is what is known of one.
type hold struct {
	owner int // itself, or that which it is nested in
	op    *history.Op
	// from which moment on it may be gone, though nobody has released it; history.Never: not before it is released
	gone history.Moment
}

// step is an operation as the model sees it.
type step struct {
	*history.Op

	hold    int // which one it is about, or makes; -1: none
	from    int // that it adopts
	excused bool
}

// lock is the model of one part of a history.
type lock struct {
	Model

	holds []hold
	token int64 // the greatest before
}

func (l *lock) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{token: l.token} },
		Step: func(s, input, _ any) (bool, any) {
			return l.step(s.(state), input.(*step)) //nolint:forcetypeassert // nothing else is given
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input.(*step).Op) }, //nolint:forcetypeassert // as above
	}
}

// step applies an operation, and reports whether it can take effect in this state.
func (l *lock) step(s state, op *step) (bool, state) {
	ok := false
	switch {
	case s.now > op.Return:
		return false, s // it was over by then
	case l.Latch:
		ok = l.stepLatch(&s, op)
	case op.Outcome == history.Refused:
		ok = op.excused || !l.fits(&s, op, func(int) bool { return false })
	case op.Kind == history.Release:
		ok = l.release(&s, op)
	case op.Kind == history.Adopt:
		ok = s.held.has(op.from)
		s.held.remove(op.from)
		ok = ok && l.grant(&s, op)
	default:
		ok = l.grant(&s, op)
	}
	return ok, s
}

func (l *lock) grant(s *state, op *step) bool {
	h := l.holds[op.hold]
	if h.owner != op.hold && (!l.Reentrant || !l.ownerHolds(s, h.owner)) {
		return false
	}
	if !l.fits(s, op, func(i int) bool { // others have to go
		gone := l.holds[i].gone
		if gone > op.Return {
			return false
		}
		s.held.remove(i)
		s.now = max(s.now, gone)
		return true
	}) {
		return false
	}
	s.held.add(op.hold)
	switch {
	case !l.Fenced, op.Shared:
		return true
	case h.owner != op.hold:
		return op.Token == l.holds[h.owner].op.Token
	case op.Token <= s.token:
		return false
	}
	s.token = op.Token
	return true
}

func (l *lock) ownerHolds(s *state, owner int) bool {
	for i := range l.holds {
		if l.holds[i].owner == owner && s.held.has(i) {
			return true
		}
	}
	return false
}

func (l *lock) release(s *state, op *step) bool {
	if s.held.has(op.hold) {
		s.held.remove(op.hold)
		return true
	}
	return l.holds[op.hold].gone <= op.Return // it had been taken away, and an Unlock does not always know
}

// fits reports whether there is room for the hold of op, or is once those in the way have
// gone, for which it asks one after another.
func (l *lock) fits(s *state, op *step, leave func(i int) bool) bool {
	var inTheWay []int
	taken := max(1, op.N)
	owner := -1
	if op.hold >= 0 {
		owner = l.holds[op.hold].owner
	}
	for i := range l.holds {
		if h := l.holds[i]; s.held.has(i) && h.owner != owner && (!l.Shared || !op.Shared || !h.op.Shared) {
			inTheWay = append(inTheWay, i)
			taken += max(1, h.op.N)
		}
	}
	if len(inTheWay) == 0 {
		return true
	}
	slices.SortFunc(inTheWay, func(a, b int) int { return cmp.Compare(l.holds[a].gone, l.holds[b].gone) })
	for _, i := range inTheWay {
		if taken <= max(1, l.Permits) {
			break
		}
		if !leave(i) {
			return false
		}
		taken -= max(1, l.holds[i].op.N)
	}
	return taken <= max(1, l.Permits)
}

func (l *lock) stepLatch(s *state, op *step) bool {
	known := op.Outcome == history.OK
	switch op.Kind {
	case history.SetCount:
		if (s.count == 0) == (op.Outcome == history.Refused) {
			return !known && op.Outcome != history.Refused // it comes to a count that is set
		}
		if op.Outcome != history.Refused {
			s.count = op.N
		}
		return true
	case history.CountDown:
		s.count = max(0, s.count-1)
		return true
	case history.Await:
		return s.count == 0
	case history.Count:
		return s.count == op.N
	default:
		return false
	}
}
