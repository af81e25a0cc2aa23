package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole program, with a server of its own, writes tables and a page.
func TestOwnServerAndPage(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	args := []string{
		"--duration", "1s", "--rounds", "2", "--only", "bare,holdfast on go", "--workloads", "1,one-lock",
		"--report", filepath.Join(dir, "page.md"), "--waiters", "10",
	}
	if err := run(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nbare/go-redis ", "\nbare/rueidis ", "p99", "Redis ", "hand-overs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 121 { // with the end of line
			t.Errorf("too wide for a terminal: %s", line)
		}
	}
	checkPage(t, filepath.Join(dir, "page.md"))
}

// checkPage looks for what a page must have, and for the charts that it shows.
func checkPage(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cores, GOMAXPROCS", "Redis ", "## Goals", "one-lock", "| holdfast/go-redis |", "make bench", "--only=bare,holdfast on go", "## Waiters"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the page:\n%s", want, text)
		}
	}
	images := regexp.MustCompile(`!\[.+\]\((.+)\)`).FindAllStringSubmatch(string(text), -1)
	if len(images) != 3 {
		t.Errorf("%d charts", len(images))
	}
	for _, image := range images {
		svg, err := os.ReadFile(filepath.Join(filepath.Dir(file), image[1]))
		if err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(svg, new(struct{})); err != nil {
			t.Errorf("%s: %v", image[1], err)
		}
	}
}

// The scripts of every kind are measured on both sides.
func TestScripts(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--scripts", "--quick"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"mutex", "fair lock", "read lock", "write lock", "permit", "the barest pair"} {
		if row := regexp.MustCompile(`(?m)^` + kind + ` +[1-9][0-9.]* `); !row.MatchString(out.String()) {
			t.Errorf("no figure of %s in the output:\n%s", kind, out.String())
		}
	}
}

// The help explains every flag, once.
func TestHelp(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--help"}, io.Discard, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("it returns %v", err)
	}
	(&options{}).flags(io.Discard).VisitAll(func(f *flag.Flag) {
		if n := len(regexp.MustCompile(`(?m)^  -`+f.Name+`\b`).FindAllString(out.String(), -1)); n != 1 {
			t.Errorf("--%s is explained %d times", f.Name, n)
		}
	})
}

// What is given counts, also with --quick.
func TestQuickOptions(t *testing.T) {
	for args, want := range map[string][4]int{
		"--quick":                               {50, 2, held.CPUFrom, 2000},
		"--quick --rounds 7":                    {50, 7, held.CPUFrom, 2000},
		"--rounds 5 --duration 1s --quick":      {1000, 5, held.CPUFrom, 2000},
		"--quick --held --holds 5 --timeout 3s": {50, 2, 5, 3000},
		"--quick --held --holds 2000000":        {50, 2, 2_000_000, 2000},
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		got := [4]int{int(o.duration.Milliseconds()), o.rounds, o.holds, int(o.timeout.Milliseconds())}
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", args, got, err, want)
		}
	}
}

func TestChosenWorkloads(t *testing.T) {
	for args, want := range map[string]string{
		"--workloads herd-1000,1":       "1 herd-1000",
		"--quick --workloads herd-1000": "herd-1000",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		got := ""
		for _, w := range (&job{options: o}).chosenWorkloads() {
			got += w.ID + " "
		}
		if err != nil || strings.TrimSpace(got) != want {
			t.Errorf("%s: %s, %v; want %s", args, got, err, want)
		}
	}
	short, err := parse([]string{"--quick"}, io.Discard)
	if err != nil || len((&job{options: short}).chosenWorkloads()) != len(workloads.All())-2 {
		t.Errorf("%v, %v", (&job{options: short}).chosenWorkloads(), err)
	}
}

func TestModes(t *testing.T) {
	for args, want := range map[string]string{
		"": "compare ", "--held": "held ", "--check": "check ", "--quick": "compare held scripts ", "--quick --scripts": "scripts ",
		"--check --held": "", "--compare": "compare ", "--check --rounds 2": "", "--holds 2": "", "--held --redisson": "", "--check --redisson": "check ",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if want == "" {
			if !errors.Is(err, errUsage) {
				t.Errorf("%s: %v", args, err)
			}
			continue
		}
		got := ""
		for _, m := range o.modes {
			got += m.name + " "
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", args, got, err, want)
		}
	}
}

func TestBadUsage(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"word"}, {"--rounds", "0"}, {"--duration", "-1s"}, {"--lease", "1s"}, {"--scripts", "--only", "bare"}, {"--workloads", "2048"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"--only", "nobody"}, io.Discard, io.Discard); err == nil {
		t.Error("a run of nothing is no error")
	}
}

// The mode writes a row of each step.
func TestHeldMode(t *testing.T) {
	var out strings.Builder
	args := "--held --quick --holds 10 --waiters 10 --lease 600ms --timeout 500ms"
	if err := run(t.Context(), append(strings.Fields(args), "--only", "holdfast on go"), &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(out.String(), "\nholdfast/go-redis "); rows != 3 {
		t.Errorf("%d rows, want 2 of holds and 1 of waiters:\n%s", rows, out.String())
	}
}
