package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Hold is the time in which a hold was trusted: from the return of its acquire to the
// invocation of its release, or the moment its context ended, whichever is first.
type Hold struct {
	Op       Op  // the acquire or adopt that made it
	Owner    Key // the hold that it is nested in, or itself
	From, To Moment
	Because  Kind // what has ended it; empty if nothing has
}

func (h *Hold) String() string {
	end := "to the end"
	if h.Because != "" {
		end = fmt.Sprintf("to %v (%s)", h.To, h.Because)
	}
	return fmt.Sprintf("trusted from %v %s: %v", h.From, end, &h.Op)
}

// holds are those of a history, and by whom and what.
type holds struct {
	all      map[Key]*Hold
	byClient map[[2]int][]*Hold
	byLock   map[string][]*Hold
}

// Holds returns the holds of a history in the order in which they were granted.
func Holds(ops []Op) []Hold {
	found := holds{all: map[Key]*Hold{}, byClient: map[[2]int][]*Hold{}, byLock: map[string][]*Hold{}}
	for _, op := range ops {
		if op.Grants() {
			found.add(op)
		}
	}
	for _, h := range found.all {
		for owner := found.all[h.Owner]; owner != nil && owner.Owner != h.Owner; owner = found.all[h.Owner] {
			h.Owner = owner.Owner // nested in what is nested itself
		}
	}
	for i := range ops {
		found.end(&ops[i])
	}
	all := make([]Hold, 0, len(found.all))
	for _, h := range found.all {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Op.Process, b.Op.Process), cmp.Compare(a.Op.ID, b.Op.ID))
	})
	return all
}

func (f *holds) add(op Op) {
	h := &Hold{Op: op, Owner: op.Key(), From: op.Return, To: Never}
	if op.Kind == Acquire && op.Hold != 0 {
		h.Owner = op.About()
	}
	client := [2]int{op.Process, op.Client}
	f.all[op.Key()] = h
	f.byClient[client] = append(f.byClient[client], h)
	f.byLock[op.Lock] = append(f.byLock[op.Lock], h)
}

// end ends the holds that an operation ends.
func (f *holds) end(op *Op) {
	switch op.Kind {
	case Release, Detach, Ended:
		if h := f.all[op.About()]; h != nil && (op.Kind != Detach || op.Outcome != Refused) {
			h.end(op.Invoke, op.Kind)
		}
	case Crash:
		for _, h := range f.byClient[[2]int{op.Process, op.Client}] {
			h.end(op.Invoke, Crash)
		}
	case Force:
		for _, h := range f.byLock[op.Lock] {
			if h.Op.Invoke < max(op.Until, op.Return) { // granted before, or while it may arrive
				h.end(max(op.Invoke, h.From), Force)
			}
		}
	default:
	}
}

func (h *Hold) end(at Moment, why Kind) {
	if at < h.To {
		h.To, h.Because = at, why
	}
}

// Rule is what may be held at one moment.
type Rule struct {
	// Permits is how many may be held together; 0 is 1. A hold takes Op.N of them, or one.
	Permits int
}

// Violation is what a check has found.
type Violation struct {
	What  string
	Holds []Hold
	Ops   []Op
}

func (v Violation) String() string {
	var b strings.Builder
	b.WriteString(v.What)
	for _, h := range v.Holds {
		fmt.Fprintf(&b, "\n    %v", &h)
	}
	for i := range v.Ops {
		fmt.Fprintf(&b, "\n    %v", &v.Ops[i])
	}
	return b.String()
}

// Overlaps returns the holds that were trusted at one moment and must not be: more than the rule of
// their lock allows, or an exclusive one beside another. Holds of one owner count as one, the
// largest. Shared ones may overlap with each other.
func Overlaps(ops []Op, rule func(lock string) Rule) []Violation {
	var found []Violation
	byLock := map[string][]Hold{}
	for _, h := range Holds(ops) {
		if h.From < h.To {
			byLock[h.Op.Lock] = append(byLock[h.Op.Lock], h)
		}
	}
	locks := make([]string, 0, len(byLock))
	for lock := range byLock {
		locks = append(locks, lock)
	}
	slices.Sort(locks)
	for _, lock := range locks {
		permits := max(1, rule(lock).Permits)
		var inside []Hold
		for _, h := range byLock[lock] {
			inside = slices.DeleteFunc(inside, func(o Hold) bool { return o.To <= h.From })
			if beside := conflict(inside, h, permits); len(beside) > 0 {
				found = append(found, Violation{What: fmt.Sprintf("holds of %q overlap", lock), Holds: append(beside, h)})
			}
			inside = append(inside, h)
		}
	}
	return found
}

// conflict returns which of the holds inside h must not be beside.
func conflict(inside []Hold, h Hold, permits int) (beside []Hold) {
	taken := map[Key]int{h.Owner: max(1, h.Op.N)}
	for _, o := range inside {
		if o.Owner == h.Owner || o.Op.Shared && h.Op.Shared {
			continue
		}
		taken[o.Owner] = max(taken[o.Owner], max(1, o.Op.N))
		beside = append(beside, o)
	}
	all := 0
	for _, n := range taken {
		all += n
	}
	if len(beside) > 0 && all > permits {
		return beside
	}
	return nil
}
