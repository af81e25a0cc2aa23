package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/holdfast-go/holdfast/robustness/internal/source"
)

// Each mutant applies to the sources as they are, and what comes of it is Go, if it was.
func TestMutantsApply(t *testing.T) {
	tree, err := source.Library(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range mutants {
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
		place, broken, err := m.apply(tree)
		if err != nil {
			t.Error(err)
			continue
		}
		if strings.HasSuffix(place.File, ".go") {
			if _, err := parser.ParseFile(token.NewFileSet(), place.File, broken, 0); err != nil {
				t.Errorf("mutant %q: %v", m.name, err)
			}
		}
	}
}

// What the page of robustness names is there: in the library, here, or as a directory.
func TestPageNamesWhatThereIs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	top := os.DirFS(filepath.Join("..", ".."))
	tree, err := source.Read(top, true, ".", "memdriver", "robustness", "test")
	if err != nil {
		t.Fatal(err)
	}
	for _, span := range source.Spans(string(page)) {
		if !span.IsName() || tree.Count(span.Text) > 0 {
			continue
		}
		_, above := fs.Stat(top, path.Clean(span.Text))
		_, beside := fs.Stat(top, path.Join(simulated, span.Text))
		if above != nil && beside != nil {
			t.Errorf("README.md:%d: there is no %s", span.Line, span.Text)
		}
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

func library(t *testing.T, files map[string]string) *source.Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for file, text := range files {
		fsys[file] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := source.Library(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// A mutant applies in its function alone, in whatever file that stands.
func TestApply(t *testing.T) {
	const before, after = "package p\n\n// f has a, and x += a.\n", "\n\nfunc g() { x += a }\n"
	m := mutant{name: "m", in: "lock.f", old: "a", new: "b"}
	for _, file := range []string{"lock.go", "moved.go", "internal/engine/lock.go", "memdriver/lock.go"} {
		tree := library(t, map[string]string{file: before + "func (l *lock) f() { x += a }" + after})
		place, broken, err := m.apply(tree)
		if want := before + "func (l *lock) f() { x += b }" + after; place.File != file || broken != want || err != nil {
			t.Error(place.File, broken, err)
		}
	}
	tree := library(t, map[string]string{"lua/x.lua": "return a\n"})
	if _, broken, err := (mutant{in: "x.lua", old: "a", new: "b"}).apply(tree); broken != "return b\n" || err != nil {
		t.Error(broken, err)
	}
}

// What a mutant replaces stands once in what it names, and it names one thing.
func TestApplyNot(t *testing.T) {
	tree := library(t, map[string]string{
		"a.go": "package p\n\n// Once: limit.\nfunc (l *lock) give() { x += a + a + b }\n\nconst limit, c = 1, 2\n",
		"b.go": "package p\n\nfunc (l *latch) give() { x += b }\n",
	})
	for says, m := range map[string]mutant{
		`"a" stands 2 times in holdfast.lock.give (a.go)`:                                   {in: "lock.give", old: "a", new: "b"},
		`"limit" stands 0 times in holdfast.lock.give (a.go)`:                               {in: "lock.give", old: "limit", new: "b"},
		`"give" is 2 declarations: holdfast.lock.give in a.go, holdfast.latch.give in b.go`: {in: "give", old: "b", new: "c"},
		`nothing is called "lock.gives"; near: holdfast.lock.give, `:                        {in: "lock.gives", old: "b", new: "c"},
		`"b" stands 1 times in holdfast.lock.give`:                                          {in: "lock.give", old: "b", new: "b"},
		`"" stands `: {in: "lock.give", new: "b"},
	} {
		m.name = "some fault"
		if _, _, err := m.apply(tree); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), m.name) {
			t.Errorf("%s: %v", says, err)
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
