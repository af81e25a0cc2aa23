package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/robustness/internal/source"
)

// bound is for how long a suite may look for a fault. One that has no time left has not caught it.
const bound = 10 * time.Minute

func main() {
	parallel := flag.Int("parallel", 2, "how many to try at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *parallel, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tries the mutants with the given names, or all, after their suites on what is not broken.
func run(ctx context.Context, parallel int, names []string) error {
	said, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return err
	}
	top := strings.TrimSpace(string(said))
	tree, err := source.Library(os.DirFS(top))
	if err != nil {
		return err
	}
	chosen := slices.Clone(mutants)
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.name == name }) {
			return fmt.Errorf("there is no mutant %q", name)
		}
	}
	if len(names) > 0 {
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool { return !slices.Contains(names, m.name) })
	}
	broken := len(chosen)
	chosen = slices.Concat(unbroken(chosen), chosen)
	start := time.Now()
	missed, err := tryAll(ctx, checkout{top, tree}, parallel, chosen)
	if err != nil {
		return err
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d are NOT CAUGHT: %s", len(missed), strings.Join(missed, "; "))
	}
	fmt.Fprintf(os.Stderr, "mutants: all of %d are caught, in %v\n", broken, time.Since(start).Round(time.Second))
	return nil
}

// checkout is a directory with all sources, and an index of what may be broken.
type checkout struct {
	top  string
	tree *source.Tree
}

// verdict is what came of one.
type verdict struct {
	took time.Duration
	by   string // what the suite has said; nothing if it passed
	err  error
}

// tryAll prints what comes of each, in their order, and returns which of them were not caught.
func tryAll(ctx context.Context, in checkout, parallel int, all []mutant) (missed []string, err error) {
	verdicts := make([]chan verdict, len(all))
	next := make(chan int, len(all))
	for i := range all {
		verdicts[i] = make(chan verdict, 1)
		next <- i
	}
	close(next)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range max(1, parallel) {
		running.Go(func() {
			for i := range next {
				verdicts[i] <- all[i].try(ctx, in)
			}
		})
	}
	fmt.Println("| fault | suite | caught after | by |\n|---|---|---|---|")
	for i, m := range all {
		v := <-verdicts[i]
		after := fmt.Sprintf("%.1f s", v.took.Seconds())
		switch {
		case v.err != nil:
			return nil, v.err
		case m.in == "" && v.by != "":
			return nil, fmt.Errorf("nothing is broken, and %v fails: %s", m.suite, v.by)
		case m.in == "":
			after, v.by = "passes, "+after, "—"
		case v.by == "":
			missed = append(missed, m.name)
			after, v.by = "**not caught** in "+after, "—"
		}
		fmt.Printf("| %s | %v | %s | %s |\n", m.name, m.suite, after, v.by)
	}
	return missed, nil
}

// try builds a mutant's suite with the broken file in the place of the other one, and runs it.
func (m mutant) try(ctx context.Context, in checkout) (v verdict) {
	if ctx.Err() != nil {
		return verdict{err: ctx.Err()}
	}
	dir, err := os.MkdirTemp("", "holdfast-mutant-")
	if err != nil {
		return verdict{err: err}
	}
	defer func() { v.err = errors.Join(v.err, os.RemoveAll(dir)) }()
	binary := filepath.Join(dir, "suite.test")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", binary}
	if m.in != "" {
		overlay, err := m.overlay(in, dir)
		if err != nil {
			return verdict{err: err}
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, "./"+m.suite.dir)...) //nolint:gosec // our own table
	build.Dir = in.top
	if said, err := build.CombinedOutput(); err != nil {
		return verdict{err: fmt.Errorf("mutant %q does not build: %w\n%s", m.name, err, said)}
	}
	start := time.Now()
	suite := exec.CommandContext(ctx, binary, m.suite.args()...) //nolint:gosec // as above
	suite.Dir = filepath.Join(in.top, m.suite.dir)
	suite.Env = append(os.Environ(), "GOGC=400")
	said, err := suite.CombinedOutput()
	v.took = time.Since(start)
	var failed *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		v.err = ctx.Err()
	case outOfTime.Match(said):
	case errors.As(err, &failed):
		v.by = first(said)
	default:
		v.err = err
	}
	return v
}

// overlay writes the broken file, and what has the go command use it, in a directory.
func (m mutant) overlay(in checkout, dir string) (path string, err error) {
	place, broken, err := m.apply(in.tree)
	if err != nil {
		return "", err
	}
	target := filepath.Join(dir, "broken"+filepath.Ext(place.File))
	if err := os.WriteFile(target, []byte(broken), 0o600); err != nil {
		return "", err
	}
	replace := map[string]string{filepath.Join(in.top, place.File): target}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// What a test says, with its seed, or how it ends.
var (
	saidLine  = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`)
	seed      = regexp.MustCompile(` -seed=\d+`)
	outOfTime = regexp.MustCompile(`(?m)^panic: test timed out`)
	panicked  = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)$`)
)

// first is the first thing that a suite has said.
func first(output []byte) string {
	for _, pattern := range []*regexp.Regexp{saidLine, panicked} {
		if match := pattern.FindSubmatch(output); match != nil {
			text := string(match[1])
			return strings.ReplaceAll(text[:min(len(text), 120)]+string(seed.Find(output)), "|", "¦")
		}
	}
	return string(output[:min(len(output), 120)])
}
