package reports

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/bench/workloads"
)

// Comparison is what a comparison has found out.
type Comparison struct {
	Plan    workloads.Plan
	Entries []*workloads.Entry
}

// Write writes the report for people.
func (r Comparison) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.how() + "\n")
	for _, load := range r.Plan.Workloads {
		for _, t := range tablesOf(r.Entries, load) {
			b.WriteString("\n" + t.String())
		}
	}
	if goals := goalsOf(r.Entries); len(goals) > 0 {
		b.WriteString("\n" + goalTable(goals, r.Entries).String())
	}
	b.WriteString("\n" + columns + "\n" + r.remarks() + "\n" + r.notes())
	_, err := io.WriteString(w, b.String())
	return err
}

// how says how it was measured.
func (r Comparison) how() string {
	return wrap(fmt.Sprintf("Medians over %d rounds of %v for each contender, in turns, client and server on one machine. "+
		"A pair is one lock and one unlock, with nothing in between unless the title says so. The lease is %v. A pair that "+
		"takes longer than %v is cut short. Each go-redis client has a pool of %d connections.",
		r.Plan.Rounds, r.Plan.Window, r.Plan.Setup.Lease, r.Plan.Limit, r.Plan.Setup.Pool), "")
}

// columns says what stands in the tables.
//
//go:embed columns.txt
var columns string

// remarks tell of everything that was not as it should be.
func (r Comparison) remarks() string {
	var b strings.Builder
	for _, e := range r.Entries {
		for i, f := range e.Rounds {
			if remark := f.Remark(); remark != "" {
				fmt.Fprintf(&b, "- %s, %s, round %d: %s\n", e.Contender.Full(), e.Workload.Title, i+1, remark)
			}
		}
	}
	if b.Len() == 0 {
		return "No errors, no timeouts, no overlaps.\n"
	}
	return b.String()
}

// notes say how the contenders are set up.
func (r Comparison) notes() string {
	var b strings.Builder
	var said []string
	for _, e := range r.Entries {
		if c := e.Contender; !slices.Contains(said, c.Notes) { // on both clients the same
			b.WriteString(wrap("- "+c.Name+": "+c.Notes, "  ") + "\n")
			said = append(said, c.Notes)
		}
	}
	return b.String()
}

// Overlapped names what is ours and let two in at once.
func (r Comparison) Overlapped() (names []string) {
	for _, e := range r.Entries {
		if e.Contender.Ours && workloads.Total(e.Rounds, func(f workloads.Figures) int { return f.Overlaps }) > 0 {
			names = append(names, e.Contender.Full()+", "+e.Workload.Title)
		}
	}
	return names
}
