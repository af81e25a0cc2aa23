package present

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// Order is how locks are sorted.
type Order string

// The orders.
const (
	ByName    Order = "name"
	ByHeld    Order = "held"    // the longest first
	ByLeft    Order = "left"    // those that end first
	ByWaiting Order = "waiting" // those that most wait for first
)

// Orders are all of them.
func Orders() []Order { return []Order{ByName, ByHeld, ByLeft, ByWaiting} }

// Sort sorts locks; those that are equal in it, by name.
func (o Order) Sort(locks []survey.Lock) {
	slices.SortFunc(locks, func(a, b survey.Lock) int { return cmp.Or(o.compare(a, b), strings.Compare(a.Name, b.Name)) })
}

func (o Order) compare(a, b survey.Lock) int {
	switch o {
	case ByHeld:
		return cmp.Compare(b.Longest(), a.Longest())
	case ByLeft:
		return cmp.Compare(ends(a), ends(b))
	case ByWaiting:
		return cmp.Compare(b.Waiting, a.Waiting)
	default:
		return 0
	}
}

// ends is for how long a lock is held; what nobody holds comes last.
func ends(l survey.Lock) int64 {
	if l.HolderCount == 0 {
		return int64(holdfast.NoExpiry)
	}
	return int64(l.Left())
}
