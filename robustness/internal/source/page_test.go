package source

import (
	"slices"
	"testing"
)

func TestSpans(t *testing.T) {
	const page = "See `Lock` and `go test ./x`.\n\n    make `nothing`\n\n" +
		"| step | stands for (`x`) |\n|---|---|\n| a `b` | `c.D`, `e.lua` |\n\n`f(g)`\n"
	want := []Span{
		{"Lock", "", 1},
		{"go test ./x", "", 1},
		{"x", "stands for (`x`)", 5},
		{"b", "step", 7},
		{"c.D", "stands for (`x`)", 7},
		{"e.lua", "stands for (`x`)", 7},
		{"f(g)", "", 9},
	}
	got := Spans(page)
	if !slices.Equal(got, want) {
		t.Error(got)
	}
	for _, span := range got {
		if is := span.Text != "go test ./x" && span.Text != "f(g)"; span.IsName() != is {
			t.Errorf("%s: %v", span.Text, !is)
		}
	}
}
