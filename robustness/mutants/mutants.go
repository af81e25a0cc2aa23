package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/robustness/internal/source"
)

// mutant is one fault in our own code.
type mutant struct {
	name     string
	in       string // what it breaks: a function, a constant or a script, by the end of its name that no other one has
	old, new string // old stands in there once
	suite    suite  // that catches it
}

// suite is some tests of one package.
type suite struct {
	dir   string
	run   string   // which tests, as go test -run says it
	flags []string // of the tests
}

// simulation are random schedules of one kind of lock, or of all.
func simulation(kind string, more ...string) suite {
	flags := slices.Concat([]string{"-schedules", "1000"}, more)
	if kind != "" {
		flags = append(flags, "-kind", kind)
	}
	return suite{dir: simulated, run: "TestSimulation$", flags: flags}
}

// tests are tests of a package by their names.
func tests(dir string, names ...string) suite {
	return suite{dir: dir, run: "^(" + strings.Join(names, "|") + ")$"}
}

// args are what the suite's binary is given. The first failure is enough.
func (s suite) args() []string {
	return append([]string{"-test.run=" + s.run, "-test.failfast", "-test.timeout=" + bound.String()}, s.flags...)
}

func (s suite) String() string {
	if s.dir == simulated {
		return strings.TrimSpace("simulation " + strings.Join(s.flags[2:], " "))
	}
	return "`" + s.dir + "` " + strings.NewReplacer("^(", "", ")$", "", "|", ", ").Replace(s.run)
}

// unbroken are the suites of some mutants, on what nobody has broken: they pass, or what they say of the others is worth nothing.
func unbroken(of []mutant) (all []mutant) {
	byDir, byFlags := map[string][]string{}, map[string]bool{}
	for _, m := range of {
		if m.suite.dir != simulated {
			byDir[m.suite.dir] = append(byDir[m.suite.dir], m.suite.run)
		} else if flags := strings.Join(m.suite.flags, " "); !byFlags[flags] {
			byFlags[flags] = true
			few := slices.Clone(m.suite.flags)
			few[1] = "100" // of a thousand, since all of them run
			all = append(all, mutant{name: "none", suite: suite{dir: simulated, run: m.suite.run, flags: few}})
		}
	}
	for dir, runs := range byDir {
		all = append(all, mutant{name: "none", suite: suite{dir: dir, run: strings.Join(runs, "|")}})
	}
	slices.SortStableFunc(all, func(a, b mutant) int { return cmp.Compare(a.suite.dir, b.suite.dir) })
	return all
}

// apply returns what a mutant breaks, and the text of its file with the fault in it.
func (m mutant) apply(tree *source.Tree) (place source.Place, broken string, err error) {
	if place, err = tree.Find(m.in); err != nil {
		return place, "", fmt.Errorf("mutant %q: %w", m.name, err)
	}
	if n := strings.Count(place.Text, m.old); m.old == "" || m.old == m.new || n != 1 {
		return place, "", fmt.Errorf("mutant %q: %q stands %d times in %s (%s)", m.name, m.old, n, place.Name, place.File)
	}
	return place, place.With(strings.Replace(place.Text, m.old, m.new, 1)), nil
}
