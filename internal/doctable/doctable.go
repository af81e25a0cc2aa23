// Package doctable reads tables of documents, for tests that compare them with the code.
package doctable

import (
	"os"
	"strings"
	"testing"
)

// Rows returns the rows of the table in a file whose head begins with first, without the code's backquotes.
func Rows(tb testing.TB, file, first string) (all [][]string) {
	tb.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // a test names it
	if err != nil {
		tb.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| "+first+" |")
	if !found {
		tb.Fatalf("%s has no table of %q", file, first)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for i, line := range strings.Split(table, "\n") {
		if i < 2 { // the head
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "| "), "|") {
			cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), "`", ""))
		}
		all = append(all, cells)
	}
	return all
}
