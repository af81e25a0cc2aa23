package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each mutant applies to the sources as they are, and what comes of it is Go, if it was.
func TestMutantsApply(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
		text, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		broken, err := m.apply(string(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasSuffix(m.file, ".go") {
			if _, err := parser.ParseFile(token.NewFileSet(), m.file, broken, 0); err != nil {
				t.Errorf("mutant %q: %v", m.name, err)
			}
		}
	}
}

// The page of robustness has them all.
func TestPageNamesAll(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if !strings.Contains(string(page), "\n| "+m.name+" | ") {
			t.Errorf("README.md does not have %q", m.name)
		}
	}
	if n := fmt.Sprintf("`mutants/table.go` has %d ", len(mutants)); !strings.Contains(string(page), n) {
		t.Errorf("README.md does not say %q", n)
	}
}

// A suite names tests that there are: one that runs nothing catches nothing.
func TestSuitesExist(t *testing.T) {
	for _, m := range mutants {
		files, err := filepath.Glob(filepath.Join("..", "..", m.suite.dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, file := range files {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(one)
		}
		for name := range strings.SplitSeq(strings.Trim(m.suite.run, "^()$"), "|") {
			if !strings.Contains(text.String(), "\nfunc "+name+"(t ") {
				t.Errorf("mutant %q: there is no %s in %s", m.name, name, m.suite.dir)
			}
		}
	}
}

func TestApply(t *testing.T) {
	m := mutant{name: "m", old: "a", new: "b"}
	if got, err := m.apply("xay"); got != "xby" || err != nil {
		t.Error(got, err)
	}
	for _, text := range []string{"", "x", "aa"} {
		if _, err := m.apply(text); err == nil {
			t.Errorf("it applies to %q", text)
		}
	}
}

func TestFirst(t *testing.T) {
	if got := first([]byte("=== RUN\n    world_test.go:12: it is so\n")); got != "it is so" {
		t.Error(got)
	}
	if got := first([]byte("x\npanic: deadlock\n")); got != "panic: deadlock" {
		t.Error(got)
	}
}
