package interop

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the matrix into docs/interop.md")

const (
	matrixBegin = "<!-- matrix: go test ./interop -run TestMatrix -update -->\n"
	matrixEnd   = "<!-- end of matrix -->\n"
)

// The matrix in docs/interop.md is what the tables of these tests say, which make the
// tests' names.
func TestMatrix(t *testing.T) {
	path := filepath.Join("..", "docs", "interop.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), matrixBegin)
	_, after, ended := strings.Cut(rest, matrixEnd)
	if !found || !ended {
		t.Fatalf("%s has no %q or no %q", path, matrixBegin, matrixEnd)
	}
	want := before + matrixBegin + matrix() + matrixEnd + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the matrix in %s is not that of the tests: go test ./interop -run TestMatrix -update", path)
	}
}

// matrix has a row for all kinds whose cells are the same.
func matrix() string {
	head, rule := "kind", "---"
	for _, top := range topologies {
		head, rule = head+" | "+top.name, rule+" | ---"
	}
	rows := []string{head + " | failover", rule + " | ---"}
	var all []string // cells
	names := map[string][]string{}
	for _, k := range append(kinds, redKind) {
		if k.label != "" {
			continue // it is a part of another one
		}
		cells := ""
		for _, top := range topologies {
			cells += " | " + k.versions(slices.Contains(top.kinds, k))
		}
		cells += " | " + k.versions(k != redKind)
		if names[cells] == nil {
			all = append(all, cells)
		}
		names[cells] = append(names[cells], k.name)
	}
	for _, cells := range all {
		rows = append(rows, strings.Join(names[cells], ", ")+cells)
	}
	return "| " + strings.Join(rows, " |\n| ") + " |\n"
}

// versions are those of Redisson that have the kind, if it is tested at all.
func (k *kind) versions(tested bool) string {
	var all []string
	for _, version := range Versions {
		if tested && (!k.from4 || !strings.HasPrefix(version, "3.")) {
			all = append(all, version)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "–")
}
