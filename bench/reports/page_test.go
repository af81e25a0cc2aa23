package reports

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// docs/benchmarks.md has the form that is written today: its sentences, its tables, and the rows of its goals.
func TestPageHasTodaysForm(t *testing.T) {
	page, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(text string) bool { return strings.Contains(string(page), text) }
	want := []string{columns}
	for line := range strings.Lines(pageText) {
		if !strings.Contains(line, "{{") {
			want = append(want, line)
		}
	}
	all := append(contenders.All(), contenders.RedissonInJVM(contenders.JVMProgram{}, io.Discard))
	for _, w := range workloads.All() {
		if slices.Contains(plotted, w.ID) {
			if has("| " + w.Title + " |") {
				t.Errorf("%s has a table", w.ID)
			}
			continue
		}
		var entries []*workloads.Entry
		for _, c := range all {
			if w.Suits(c) {
				entries = append(entries, &workloads.Entry{Contender: c, Workload: w})
			}
		}
		for _, table := range tablesOf(entries, w) {
			want = append(want, "| "+strings.Join(table.rows[0], " | ")+" |\n")
		}
	}
	for _, s := range sections {
		want = append(want, "## "+s.Title+"\n\n"+s.Text+"\n")
	}
	for i, row := range goalTable(slices.Concat(goals, contentionGoals), nil).rows {
		if i > 0 {
			row = row[:4] // the others are figures
		}
		want = append(want, "| "+strings.Join(row, " | ")+" |")
	}
	for _, text := range want {
		if !has(text) {
			t.Errorf("docs/benchmarks.md has no %q: change both, or make bench", text)
		}
	}
}
