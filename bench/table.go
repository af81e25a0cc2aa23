package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is a Markdown table. Its first column is text, the others are figures.
type table struct{ rows [][]string }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String aligns the columns. The first row is the head.
func (t *table) String() string {
	var b strings.Builder
	widths := t.widths()
	for i, row := range t.rows {
		b.WriteByte('|')
		for column, text := range row {
			gap := strings.Repeat(" ", widths[column]-utf8.RuneCountInString(text))
			if column == 0 {
				b.WriteString(" " + text + gap + " |")
			} else {
				b.WriteString(" " + gap + text + " |")
			}
		}
		b.WriteByte('\n')
		if i == 0 {
			b.WriteString(ruler(widths))
		}
	}
	return b.String()
}

func (t *table) widths() []int {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for column, text := range row {
			widths[column] = max(widths[column], utf8.RuneCountInString(text))
		}
	}
	return widths
}

func ruler(widths []int) string {
	var b strings.Builder
	b.WriteByte('|')
	for column, width := range widths {
		if column == 0 {
			b.WriteString(strings.Repeat("-", width+2) + "|")
		} else {
			b.WriteString(strings.Repeat("-", width+1) + ":|")
		}
	}
	return b.String() + "\n"
}

// none stands where a contender does not take part.
const none = "–"

// throughput is the main table: pairs per second, and the latency where there is
// one goroutine.
func throughput(entries []entry, ws []workload) string {
	t := &table{}
	head := []string{"pairs/s: median (lowest–highest)"}
	for _, w := range ws {
		if w.goroutines == 1 {
			head = append(head, w.title+": p50", "p99")
		}
		head = append(head, w.title)
	}
	t.add(head...)
	for _, name := range names(entries) {
		row := make([]string, 1, len(head))
		row[0] = name
		for _, w := range ws {
			row = append(row, throughputCells(find(entries, name, w), w)...)
		}
		t.add(row...)
	}
	return t.String()
}

func throughputCells(e *entry, w workload) (cells []string) {
	if e == nil {
		if w.goroutines == 1 {
			cells = append(cells, none, none)
		}
		return append(cells, none)
	}
	if w.goroutines == 1 {
		cells = append(cells, e.time(p50), e.time(p99))
	}
	return append(cells, e.rate())
}

// contention is the table of a workload on one lock: how long a pair took, and
// how evenly the goroutines got their turns.
func contention(entries []entry, w workload) string {
	t := &table{}
	t.add(w.title, "p50", "p99", "longest", "pairs of one goroutine: fewest", "most")
	for _, name := range names(entries) {
		if e := find(entries, name, w); e != nil {
			t.add(name, e.time(p50), e.time(p99), e.time(longest), e.number(fewest), e.number(most))
		}
	}
	return t.String()
}

func p50(f figures) time.Duration     { return f.P50 }
func p99(f figures) time.Duration     { return f.P99 }
func longest(f figures) time.Duration { return f.Max }
func fewest(f figures) int            { return f.Fewest }
func most(f figures) int              { return f.Most }
func perSecond(f figures) float64     { return f.PerSecond }

// names are those of the contenders, in their order.
func names(entries []entry) (all []string) {
	for _, e := range entries {
		if name := e.contender.full(); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func find(entries []entry, name string, w workload) *entry {
	for i := range entries {
		if entries[i].contender.full() == name && entries[i].workload.id == w.id {
			return &entries[i]
		}
	}
	return nil
}

// rate is the throughput, or what kept it from being one.
func (e *entry) rate() string {
	if n := total(e.rounds, func(f figures) int { return f.Overlaps }); n > 0 {
		return fmt.Sprintf("OVERLAPPED %d times", n)
	}
	if i := slices.IndexFunc(e.rounds, func(f figures) bool { return f.StoodStill || f.Stuck > 0 }); i >= 0 {
		return fmt.Sprintf("stood still after %s pairs", grouped(e.rounds[i].Pairs))
	}
	s := over(e.rounds, perSecond)
	return fmt.Sprintf("%s (%s–%s)", grouped(int(s.median)), grouped(int(s.low)), grouped(int(s.high)))
}

func (e *entry) time(pick func(figures) time.Duration) string {
	s := over(e.rounds, pick)
	if s.median == 0 {
		return none
	}
	unit, word := unitOf(s.median)
	in := func(d time.Duration) string { return grouped(int((d + unit/2) / unit)) }
	return fmt.Sprintf("%s (%s–%s) %s", in(s.median), in(s.low), in(s.high), word)
}

func unitOf(d time.Duration) (unit time.Duration, word string) {
	if d < 10*time.Millisecond {
		return time.Microsecond, "µs"
	}
	return time.Millisecond, "ms"
}

func (e *entry) number(pick func(figures) int) string {
	s := over(e.rounds, pick)
	return fmt.Sprintf("%s (%s–%s)", grouped(s.median), grouped(s.low), grouped(s.high))
}

// grouped writes a number that is not negative, with its thousands apart.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
