package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// report is all that a run has found out.
type report struct {
	facts   facts
	plan    plan
	entries []entry
}

// write writes the report as Markdown.
func (r report) write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(r.facts.String())
	fmt.Fprintf(&b, "\nMedian (lowest–highest) of %d rounds of %v for each cell, in turns, client and server on one machine.\n"+
		"A pair is one lock and one unlock with nothing in between, of locks with a lease of %v; a pair that\n"+
		"takes longer than %v is cut short. Each go-redis client has a pool of %d connections.\n\n",
		r.plan.rounds, r.plan.window, r.plan.setup.lease, r.plan.limit, r.plan.setup.pool)
	b.WriteString(throughput(r.entries, r.plan.workloads))
	for _, load := range r.plan.workloads {
		if load.shared {
			b.WriteString("\n" + contention(r.entries, load))
		}
	}
	b.WriteString("\n" + r.remarks() + "\n" + r.notes())
	_, err := io.WriteString(w, b.String())
	return err
}

// remarks tell of everything that was not as it should be.
func (r report) remarks() string {
	var b strings.Builder
	for _, e := range r.entries {
		for i, f := range e.rounds {
			if remark := f.remark(); remark != "" {
				fmt.Fprintf(&b, "- %s, %s, round %d: %s\n", e.contender.full(), e.workload.title, i+1, remark)
			}
		}
	}
	if b.Len() == 0 {
		return "No errors, no timeouts, no overlaps.\n"
	}
	return b.String()
}

// remark says what was not as it should be in one cell; nothing if all was.
func (f figures) remark() string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(f.Overlaps > 0, "OVERLAPPED %d times", f.Overlaps)
	say(f.StoodStill, "stood still after %d pairs", f.Pairs)
	say(f.Stuck > 0, "%d goroutines never came back", f.Stuck)
	say(f.Timeouts > 0, "%d pairs were cut short", f.Timeouts)
	say(f.Errors > 0, "%d errors, the first: %s", f.Errors, f.Error)
	return strings.Join(parts, "; ")
}

// notes say how the contenders are set up.
func (r report) notes() string {
	var b strings.Builder
	var said []string
	for _, e := range r.entries {
		if c := e.contender; !slices.Contains(said, c.notes) { // on both clients the same
			fmt.Fprintf(&b, "- %s: %s\n", c.name, c.notes)
			said = append(said, c.notes)
		}
	}
	b.WriteString("- A library whose waiters try again after a pause gets most of its pairs on one lock from a goroutine that\n" +
		"  takes the lock again while all the others sleep: see how evenly the turns are spread.\n" +
		"- Through the server, one lock cannot change hands more often than one goroutine's bare pairs.\n")
	return b.String()
}

// overlapped names what is ours and let two in at once.
func (r report) overlapped() (names []string) {
	for _, e := range r.entries {
		if e.contender.ours && total(e.rounds, func(f figures) int { return f.Overlaps }) > 0 {
			names = append(names, e.contender.full()+", "+e.workload.title)
		}
	}
	return names
}

// rawEntry is an entry as it stands in the file of raw figures.
type rawEntry struct {
	Contender string    `json:"contender"`
	Client    string    `json:"client"`
	Workload  string    `json:"workload"`
	Rounds    []figures `json:"rounds"`
}

// save writes the raw figures.
func (r report) save(path string) error {
	raw := struct {
		Facts  facts         `json:"facts"`
		Window time.Duration `json:"window_ns"`
		Limit  time.Duration `json:"limit_ns"`
		Lease  time.Duration `json:"lease_ns"`
		Pool   int           `json:"pool"`
		Cells  []rawEntry    `json:"cells"`
	}{r.facts, r.plan.window, r.plan.limit, r.plan.setup.lease, r.plan.setup.pool, nil}
	for _, e := range r.entries {
		raw.Cells = append(raw.Cells, rawEntry{e.contender.name, e.contender.client, e.workload.id, e.rounds})
	}
	text, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // figures are for everybody
}
