package present

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// column is one of the table of locks.
type column struct {
	title string
	cell  func(survey.Lock) string
	// least is how narrow it may get; 0: it is as wide as it has to be.
	least int
	// brief, if not nil, is what the cell says where it has no room for all.
	brief func(survey.Lock) string
}

// The columns, and which of them go first where there is no room.
const (
	nameColumn = iota
	kindColumn
	stateColumn
	holderColumn
	heldColumn
	leftColumn
	waitingColumn
)

var columns = []column{
	nameColumn:    {"NAME", func(l survey.Lock) string { return Cut(l.Name) }, 14, nil},
	kindColumn:    {"KIND", KindOf, 0, nil},
	stateColumn:   {"STATE", StateOf, 0, nil},
	holderColumn:  {"HOLDER", HolderOf, 12, briefHolder},
	heldColumn:    {"HELD", HeldOf, 0, nil},
	leftColumn:    {"LEFT", LeftOf, 0, nil},
	waitingColumn: {"WAIT", WaitingOf, 0, nil},
}

var expendable = []int{leftColumn, kindColumn, holderColumn, heldColumn}

// gap is what stands between two columns.
const gap = "  "

// Table writes locks in columns. Use [NewTable].
type Table struct {
	shown  []int
	widths []int
}

// NewTable returns a table for these locks, and others like them, that is no wider than width; 0: as wide as it has to be, with
// 200 columns for each text at most.
func NewTable(locks []survey.Lock, width int) *Table {
	natural := make([]int, len(columns))
	for i, c := range columns {
		natural[i] = len(c.title)
		for _, l := range locks {
			natural[i] = min(widest, max(natural[i], ansi.StringWidth(c.cell(l))))
		}
	}
	t := &Table{widths: natural}
	for i := range columns {
		t.shown = append(t.shown, i)
	}
	if width <= 0 {
		return t
	}
	for _, next := range expendable {
		if t.fits(width) {
			break
		}
		t.shown = slices.DeleteFunc(t.shown, func(i int) bool { return i == next })
	}
	t.shrink(width)
	return t
}

// total is how wide it is if each column has a width.
func (t *Table) total(width func(i int) int) int {
	sum := len(gap) * (len(t.shown) - 1)
	for _, i := range t.shown {
		sum += width(i)
	}
	return sum
}

// fits reports whether it can be made as narrow as that.
func (t *Table) fits(width int) bool {
	return t.total(func(i int) int {
		if columns[i].least > 0 {
			return min(columns[i].least, t.widths[i])
		}
		return t.widths[i]
	}) <= width
}

// shrink makes it as narrow as that: first the holders, and then the names.
func (t *Table) shrink(width int) {
	for _, i := range []int{holderColumn, nameColumn} {
		if !slices.Contains(t.shown, i) {
			continue
		}
		if over := t.total(func(i int) int { return t.widths[i] }) - width; over > 0 {
			least := min(columns[i].least, t.widths[i])
			if i == holderColumn { // a name needs room as well
				least = max(least, min(t.widths[i], width/4))
			}
			t.widths[i] = max(least, t.widths[i]-over)
		}
	}
}

// Head is the line of titles.
func (t *Table) Head() string {
	return t.line(func(c column, _ int) string { return c.title })
}

// Line is the line of a lock.
func (t *Table) Line(l survey.Lock) string {
	return t.line(func(c column, width int) string {
		if text := c.cell(l); c.brief == nil || ansi.StringWidth(text) <= width {
			return text
		}
		return c.brief(l)
	})
}

func (t *Table) line(cell func(c column, width int) string) string {
	cells := make([]string, len(t.shown))
	for n, i := range t.shown {
		cells[n] = pad(Fit(cell(columns[i], t.widths[i]), t.widths[i]), t.widths[i])
	}
	return strings.TrimRight(strings.Join(cells, gap), " ")
}

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
