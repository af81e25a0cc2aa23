package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// bound is for how long a suite may look for a fault.
const bound = 3 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the mutants with the given names; or all, and what is not broken.
func run(ctx context.Context, names []string) error {
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			return fmt.Errorf("there is no mutant %q", name)
		}
	}
	var missed []string
	fmt.Println("| fault | suite | caught after | by |\n|---|---|---|---|")
	if len(names) == 0 {
		took, by, err := unbroken.try(ctx, strings.TrimSpace(string(top)))
		if err != nil {
			return err
		}
		if by != "" {
			return fmt.Errorf("nothing is broken, and the suite fails: %s", by)
		}
		fmt.Printf("| none | `%s` | passes, %.1f s | |\n", strings.Join(unbroken.suite, " "), took.Seconds())
	}
	for _, m := range mutants {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			continue
		}
		took, by, err := m.try(ctx, strings.TrimSpace(string(top)))
		if err != nil {
			return err
		}
		after := fmt.Sprintf("%.1f s", took.Seconds())
		if by == "" {
			missed = append(missed, m.name)
			after, by = "**not caught**", "—"
		}
		fmt.Printf("| %s | `%s` | %s | %s |\n", m.name, strings.Join(m.suite, " "), after, by)
	}
	if len(missed) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(missed, ", "))
	}
	return nil
}

// try runs a mutant's suite in a copy of the repository, and returns how long it took and what the suite
// said; nothing if it passed.
func (m mutant) try(ctx context.Context, top string) (took time.Duration, by string, err error) {
	dir, err := os.MkdirTemp("", "holdfast-mutant-")
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := copyTree(ctx, top, dir); err != nil {
		return 0, "", err
	}
	if err := m.breakIn(dir); err != nil {
		return 0, "", err
	}
	build := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run", "^$", m.suite[0]) //nolint:gosec // our own table
	build.Dir = dir
	if said, err := build.CombinedOutput(); err != nil {
		return 0, "", fmt.Errorf("mutant %q does not build: %w\n%s", m.name, err, said)
	}
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	suite := exec.CommandContext(bounded, "go", append([]string{"test", "-vet=off", "-count=1", "-failfast"}, m.suite...)...) //nolint:gosec // our own table
	suite.Dir = dir
	said, err := suite.CombinedOutput()
	took = time.Since(start)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return took, "", nil
	case ctx.Err() != nil:
		return took, "", ctx.Err()
	case bounded.Err() != nil:
		return took, "it does not end", nil
	case errors.As(err, &failed):
		return took, verdict(said), nil
	}
	return took, "", err
}

// breakIn breaks what the mutant is about in a copy.
func (m mutant) breakIn(dir string) error {
	if m.file == "" {
		return nil
	}
	path := filepath.Join(dir, m.file)
	text, err := os.ReadFile(path) //nolint:gosec // in a copy that we have made
	if err != nil {
		return err
	}
	broken, err := m.apply(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(broken), 0o600) //nolint:gosec // as above
}

// What a test says, with its seed, or how it ends.
var (
	saidLine = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`)
	seed     = regexp.MustCompile(` -seed=\d+`)
	panicked = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)$`)
)

// verdict is the first thing that a suite has said.
func verdict(output []byte) string {
	for _, pattern := range []*regexp.Regexp{saidLine, panicked} {
		if match := pattern.FindSubmatch(output); match != nil {
			text := string(match[1])
			return strings.ReplaceAll(text[:min(len(text), 120)]+string(seed.Find(output)), "|", "¦")
		}
	}
	return string(output[:min(len(output), 120)])
}

// copyTree copies what git knows of, or would.
func copyTree(ctx context.Context, from, to string) error {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	names, err := list.Output()
	if err != nil {
		return err
	}
	for name := range bytes.SplitSeq(bytes.TrimRight(names, "\x00"), []byte{0}) {
		source, target := filepath.Join(from, string(name)), filepath.Join(to, string(name))
		info, err := os.Lstat(source)
		if errors.Is(err, os.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue // deleted, or a link
		}
		if err != nil {
			return err
		}
		text, err := os.ReadFile(source) //nolint:gosec // git has named it
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(target, text, info.Mode().Perm()); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}
