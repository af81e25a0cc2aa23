package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Tokens returns the holds whose token is not greater than that of a hold which was granted
// before they were asked for. Nested holds share the token of their owner.
func Tokens(ops []Op) []Violation {
	var found []Violation
	byLock := map[string][]Hold{}
	for _, h := range Holds(ops) {
		if h.Op.Token != 0 && h.Owner == h.Op.Key() {
			byLock[h.Op.Lock] = append(byLock[h.Op.Lock], h)
		}
	}
	for lock, granted := range byLock { // in the order in which they were granted
		asked := slices.Clone(granted)
		slices.SortFunc(asked, func(a, b Hold) int { return cmp.Compare(a.Op.Invoke, b.Op.Invoke) })
		var highest *Hold
		next := 0
		for _, h := range asked {
			for ; next < len(granted) && granted[next].From < h.Op.Invoke; next++ {
				if highest == nil || granted[next].Op.Token > highest.Op.Token {
					highest = &granted[next]
				}
			}
			if highest != nil && h.Op.Token <= highest.Op.Token {
				found = append(found, Violation{What: fmt.Sprintf("the token of %q did not grow", lock), Holds: []Hold{*highest, h}})
			}
		}
	}
	return found
}

// StaleWrites returns the writes that a store which compares tokens has accepted though it had
// accepted a greater token before, and says how many it has refused.
func StaleWrites(ops []Op) (found []Violation, refused int) {
	byLock := map[string][]Op{}
	for _, op := range ops {
		if op.Kind != Write {
			continue
		}
		if op.Outcome == Refused {
			refused++
		}
		if op.Outcome == OK {
			byLock[op.Lock] = append(byLock[op.Lock], op)
		}
	}
	for lock, invoked := range byLock {
		returned := slices.Clone(invoked)
		slices.SortFunc(invoked, func(a, b Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
		slices.SortFunc(returned, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
		var highest *Op
		next := 0
		for _, op := range invoked {
			for ; next < len(returned) && returned[next].Return < op.Invoke; next++ {
				if highest == nil || returned[next].Token > highest.Token {
					highest = &returned[next]
				}
			}
			if highest != nil && op.Token < highest.Token {
				found = append(found, Violation{What: fmt.Sprintf("a stale token was accepted at %q", lock), Ops: []Op{*highest, op}})
			}
		}
	}
	return found, refused
}
