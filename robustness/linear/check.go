package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/robustness/history"
)

// Limit is for how long the suites check a part of a history.
const Limit = 5 * time.Second

// Result is what a check has found.
type Result struct {
	Parts     int // how many parts were checked, by themselves
	Undecided int // of how many it is not known, since it would take too long
	Refusals  int // how many tries were refused
	Excused   int // of how many nobody has to be the reason, since something was under way that may have been
	Illegal   []Illegal
}

// Illegal is a part of a lock's history that no lock of its kind can have.
type Illegal struct {
	Lock string
	Ops  []history.Op // in the order of invocation
	// Explained are the operations of the longest order that explains some, in that order.
	Explained []history.Op
}

func (i Illegal) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no order explains what happened to %q:", i.Lock)
	explained := map[history.Key]int{}
	for j := range i.Explained {
		explained[i.Explained[j].Key()] = j + 1
	}
	for j := range i.Ops {
		op := &i.Ops[j]
		place := "not explained"
		if n := explained[op.Key()]; n > 0 {
			place = fmt.Sprint("as number ", n)
		}
		fmt.Fprintf(&b, "\n    %v (%s)", op, place)
	}
	return b.String()
}

// Check checks the history of each lock against its model, for limit at most each part.
func Check(ops []history.Op, model func(lock string) Model, limit time.Duration) (Result, error) {
	var r Result
	byLock := map[string][]history.Op{}
	ends := []history.Op{} // of clients
	for _, op := range ops {
		if op.Kind == history.Crash || op.Kind == history.Close {
			ends = append(ends, op)
		} else if op.Lock != "" {
			byLock[op.Lock] = append(byLock[op.Lock], op)
		}
	}
	locks := make([]string, 0, len(byLock))
	for name := range byLock {
		locks = append(locks, name)
	}
	slices.Sort(locks)
	for _, name := range locks {
		l, steps := prepare(model(name), byLock[name], ends)
		r.count(steps)
		for _, part := range l.cut(steps) {
			r.Parts++
			verdict, illegal, err := l.check(part, limit)
			if err != nil {
				return r, fmt.Errorf("%q: %w", name, err)
			}
			switch verdict {
			case porcupine.Illegal:
				illegal.Lock = name
				r.Illegal = append(r.Illegal, illegal)
			case porcupine.Unknown:
				r.Undecided++
			case porcupine.Ok:
			}
		}
	}
	return r, nil
}

// count counts the tries that were refused.
func (r *Result) count(steps []*step) {
	for _, s := range steps {
		if s.Kind == history.Acquire && s.Outcome == history.Refused {
			r.Refusals++
			if s.excused {
				r.Excused++
			}
		}
	}
}

// prepare makes the steps of a lock's history, in the order of their invocation.
func prepare(m Model, ops []history.Op, ends []history.Op) (l *lock, steps []*step) {
	l = &lock{Model: m}
	numbers := map[history.Key]int{}
	for i := range ops {
		if op := &ops[i]; op.Grants() {
			numbers[op.Key()] = len(l.holds)
			l.holds = append(l.holds, hold{owner: len(l.holds), op: op, gone: history.Never})
		}
	}
	for i := range l.holds { // what is nested is listed after what it is nested in
		if op := l.holds[i].op; op.Kind == history.Acquire && op.Hold != 0 {
			if n, ok := numbers[op.About()]; ok {
				l.holds[i].owner = l.holds[n].owner
			}
		}
	}
	l.findLosses(ops, ends, numbers)
	excuses := l.excuses(ops)
	for i := range ops {
		s := newStep(&ops[i], numbers)
		s.excused = slices.ContainsFunc(excuses, func(e excuse) bool { return e.from <= s.Return && s.Invoke <= e.to && e.by != s.Op })
		if l.counts(s) {
			steps = append(steps, s)
		}
	}
	slices.SortStableFunc(steps, func(a, b *step) int { return cmp.Compare(a.Invoke, b.Invoke) })
	return l, steps
}

// newStep returns the step of an operation.
func newStep(op *history.Op, numbers map[history.Key]int) *step {
	s := &step{Op: op, hold: -1, from: -1}
	if n, ok := numbers[op.Key()]; ok {
		s.hold = n
	} else if n, ok := numbers[op.About()]; ok && op.Hold != 0 {
		s.hold = n
	}
	if op.Kind == history.Adopt {
		if n, ok := numbers[op.Adopted()]; ok {
			s.from = n
		}
	}
	return s
}

// counts reports whether a step is an operation of the model.
func (l *lock) counts(s *step) bool {
	switch s.Kind {
	case history.Acquire:
		return s.Outcome == history.OK || s.Outcome == history.Refused && s.Try
	case history.Adopt:
		return s.Outcome == history.OK && s.from >= 0
	case history.Release:
		return s.Outcome == history.OK && s.hold >= 0
	case history.SetCount, history.CountDown:
		if s.Outcome != history.OK && s.Outcome != history.Refused {
			unknown := *s.Op
			unknown.Outcome, unknown.Return = history.Unknown, history.Never
			s.Op = &unknown
		}
		return l.Latch
	case history.Await, history.Count:
		return l.Latch && s.Outcome == history.OK
	default:
		return false
	}
}

// findLosses notes from when on holds may be gone though nobody has released them.
func (l *lock) findLosses(ops, ends []history.Op, numbers map[history.Key]int) {
	for i := range ops {
		op := &ops[i]
		if op.Kind == history.Force {
			l.loseAll(op.Invoke, func(h *history.Op) bool { return h.Invoke < max(op.Until, op.Return) })
			continue
		}
		which, at := loss(op)
		if n, ok := numbers[which]; ok {
			l.holds[n].gone = min(l.holds[n].gone, at)
		}
	}
	for i := range ends {
		l.loseAll(ends[i].Invoke, func(h *history.Op) bool { return h.Process == ends[i].Process && h.Client == ends[i].Client })
	}
}

// loseAll notes that the holds which are meant may be gone from a moment on, or from the beginning.
func (l *lock) loseAll(at history.Moment, meant func(h *history.Op) bool) {
	for i := range l.holds {
		if h := &l.holds[i]; meant(h.op) {
			h.gone = min(h.gone, max(at, h.op.Invoke))
		}
	}
}

// loss returns which hold may be gone according to an operation, and from when on.
func loss(op *history.Op) (which history.Key, at history.Moment) {
	switch {
	case op.Kind == history.Release && op.Outcome != history.OK,
		op.Kind == history.Ended && op.Outcome == history.Lost,
		op.Kind == history.Detach && op.Outcome == history.Lost:
		if op.Until != 0 {
			return op.About(), min(op.Invoke, op.Until)
		}
		return op.About(), op.Invoke
	case op.Kind == history.Detach && op.Outcome == history.OK:
		return op.About(), max(op.Until, op.Invoke)
	case op.Kind == history.Adopt && op.Outcome != history.OK:
		return op.Adopted(), op.Invoke
	}
	return history.Key{}, history.Never
}

// excuse is a time in which a refusal needs no reason.
type excuse struct {
	by       *history.Op
	from, to history.Moment
}

func (l *lock) excuses(ops []history.Op) (all []excuse) {
	for i := range ops {
		if e := l.excuse(&ops[i]); e.by != nil {
			all = append(all, e)
		}
	}
	if l.Permits > 1 { // which of several lost holds has gone is not followed
		for _, h := range l.holds {
			if h.gone != history.Never {
				all = append(all, excuse{h.op, h.op.Invoke, history.Never})
			}
		}
	}
	return all
}

// excuse is that for which an operation is the reason; by no operation if it is none.
func (l *lock) excuse(op *history.Op) excuse {
	until := op.Until
	if until == 0 {
		until = history.Never
	}
	failed := op.Outcome != history.OK && op.Outcome != history.Refused
	switch {
	case op.Kind == history.Unanswered, op.Kind == history.Adopt && op.Outcome != history.OK:
		return excuse{op, op.Invoke, until}
	case op.Kind == history.Acquire && failed:
		return excuse{op, l.hinders(op), until}
	case op.Kind == history.Acquire && l.InLine && !op.Try:
		return excuse{op, op.Invoke, max(op.Return, op.Until)}
	}
	return excuse{}
}

// hinders returns from when on an acquire that has failed may be the reason of a refusal. While it waits it has
// nothing, unless others make way for it: it may have been given the lock at the end only.
func (l *lock) hinders(op *history.Op) history.Moment {
	if l.InLine || op.Until == 0 || op.Return == history.Never {
		return op.Invoke
	}
	return max(op.Invoke, op.Return-(op.Until-op.Return))
}

// cut divides steps where nothing is under way and nobody holds the lock.
func (l *lock) cut(steps []*step) (parts [][]*step) {
	end := history.Moment(0)
	begin := 0
	released := map[int]history.Moment{}
	for _, s := range steps {
		if s.Kind == history.Release || s.Kind == history.Adopt {
			i := s.hold
			if s.Kind == history.Adopt {
				i = s.from
			}
			released[i] = s.Return
		}
	}
	for i, s := range steps {
		if i > begin && s.Invoke > end && !l.Latch {
			parts = append(parts, steps[begin:i])
			begin = i
		}
		end = max(end, s.Return)
		if s.Grants() {
			last, ok := released[s.hold]
			if !ok {
				last = l.displaced(s, steps[i+1:])
			}
			end = max(end, last)
		}
	}
	if begin < len(steps) {
		parts = append(parts, steps[begin:])
	}
	return parts
}

// displaced returns when a hold has certainly gone that nobody has released: when another one has been
// granted that could not stand beside it.
func (l *lock) displaced(s *step, later []*step) history.Moment {
	h := l.holds[s.hold]
	if h.gone == history.Never || l.Permits > 1 {
		return history.Never
	}
	for _, next := range later {
		if next.Grants() && next.Invoke > s.Return && l.holds[next.hold].owner != h.owner && (!l.Shared || !s.Shared || !next.Shared) {
			return next.Return
		}
	}
	return history.Never
}

// check checks one part, and has the next one begin with the tokens of this one.
func (l *lock) check(steps []*step, limit time.Duration) (porcupine.CheckResult, Illegal, error) {
	part := &lock{Model: l.Model, token: l.token}
	numbers := map[int]int{}
	for _, s := range steps {
		if s.Grants() {
			numbers[s.hold] = len(part.holds)
			part.holds = append(part.holds, l.holds[s.hold])
		}
	}
	for i := range part.holds {
		part.holds[i].owner = numberIn(numbers, part.holds[i].owner)
	}
	if len(part.holds) > maxHolds {
		return porcupine.Unknown, Illegal{}, fmt.Errorf("%d holds follow one another without a moment in which it is free; %d can be checked", len(part.holds), maxHolds)
	}
	ops := make([]porcupine.Operation, 0, len(steps))
	illegal := Illegal{}
	for _, s := range steps {
		own := *s
		own.hold, own.from = numberIn(numbers, s.hold), numberIn(numbers, s.from)
		ops = append(ops, porcupine.Operation{ClientId: s.Client, Input: &own, Call: int64(s.Invoke), Return: int64(s.Return)})
		illegal.Ops = append(illegal.Ops, *s.Op)
		if s.Grants() {
			l.token = max(l.token, s.Token)
		}
	}
	verdict := porcupine.CheckOperationsTimeout(part.porcupine(), ops, limit)
	if verdict == porcupine.Illegal {
		illegal.Explained = longest(part.porcupine(), ops, limit)
	}
	return verdict, illegal, nil
}

func numberIn(numbers map[int]int, i int) int {
	if n, ok := numbers[i]; ok {
		return n
	}
	return -1
}

// longest returns the longest order that explains some operations.
func longest(model porcupine.Model, ops []porcupine.Operation, limit time.Duration) (explained []history.Op) {
	_, info := porcupine.CheckOperationsVerbose(model, ops, limit)
	for _, part := range info.PartialLinearizationsOperations() {
		for _, order := range part {
			if len(order) <= len(explained) {
				continue
			}
			explained = explained[:0]
			for _, op := range order {
				explained = append(explained, *op.Input.(*step).Op) //nolint:forcetypeassert // it is what check has given
			}
		}
	}
	return explained
}
