package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestMain makes the test binary a process of a crew when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		memberMain()
		return
	}
	goleak.VerifyTestMain(m,
		// go-redis' cluster client leaves them behind when it is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/maintnotifications.(*CircuitBreakerManager).cleanupLoop"))
}

// newJob is a run with these flags, on a server of the test's own.
func newJob(t *testing.T, args ...string) *job {
	t.Helper()
	o, err := parse(append(args, "--redis", redistest.Start(t).Addr()), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	none, err := newRecords("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return &job{options: o, addr: o.redis, stdout: t.Output(), progress: t.Output(), records: none}
}

// Every contender has a figure in every kind of cell, or says why it has not; holdfast
// has one, and no overlap. The cells are as small as they can be.
func TestEveryKindOfCell(t *testing.T) {
	j := newJob(t, "--quick", "--rounds", "1", "--duration", "300ms", "--timeout", "5s")
	p, err := j.plan()
	if err != nil {
		t.Fatal(err)
	}
	p.workloads = smallWorkloads()
	entries, err := p.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, w := range p.workloads {
		for _, c := range contenders() {
			if c.suits(w) {
				want++
			}
		}
	}
	if len(entries) != want || want == 0 {
		t.Errorf("%d entries, want %d", len(entries), want)
	}
	for _, e := range entries {
		checkEntry(t, j.options, e)
	}
	r := report{plan: p, entries: entries}
	if names := r.overlapped(); names != nil {
		t.Errorf("overlapped: %v", names)
	}
}

// smallWorkloads are those of each kind, with few goroutines.
func smallWorkloads() (small []workload) {
	seen := map[string]bool{}
	for _, w := range workloads() {
		shape := fmt.Sprint(w.shared, w.kind, w.processes > 0)
		if seen[shape] || w.clients || w.alternate { // crew_test.go has these
			continue
		}
		seen[shape] = true
		w.goroutines, w.processes, w.ramp = min(4, w.goroutines), min(2, w.processes), min(w.ramp, 10*time.Millisecond)
		small = append(small, w)
	}
	return small
}

func checkEntry(t *testing.T, o options, e *entry) {
	t.Helper()
	if len(e.rounds) != o.rounds && !e.hopeless() {
		t.Errorf("%s, %s: %d rounds, want %d", e.contender.full(), e.workload.title, len(e.rounds), o.rounds)
	}
	for i, f := range e.rounds {
		remark := f.remark()
		if !f.measured() && (e.contender.ours || remark == "") {
			t.Errorf("%s, %s, round %d: no figure; remark: %q", e.contender.full(), e.workload.title, i+1, remark)
		}
		if e.contender.ours && remark != "" {
			t.Errorf("%s, %s, round %d: %s", e.contender.full(), e.workload.title, i+1, remark)
		}
	}
}

// The whole program, with a server of its own, writes tables and the figures.
func TestOwnServerAndFiles(t *testing.T) {
	dir := t.TempDir()
	file, mem := filepath.Join(dir, "figures.json"), filepath.Join(dir, "allocs")
	var out strings.Builder
	args := []string{
		"--duration", "1s", "--rounds", "2", "--only", "bare,holdfast on go", "--workloads", "1,one-lock",
		"--json", file, "--memprofile", mem, "--report", filepath.Join(dir, "page.md"), "--waiters", "10",
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
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		kinds[checkRecord(t, line)]++
	}
	if want := map[string]int{"run": 1, "round": 8, "result": 4, "waiting": 1}; !maps.Equal(kinds, want) {
		t.Errorf("records %v, want %v", kinds, want)
	}
	checkPage(t, filepath.Join(dir, "page.md"))
	if found, err := os.Stat(mem); err != nil || found.Size() == 0 {
		t.Errorf("no profile: %v", err)
	}
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
		wellFormed(t, svg)
	}
}

// checkRecord returns the kind of a record. Rounds and results must be complete.
func checkRecord(t *testing.T, line string) string {
	t.Helper()
	var record map[string]any
	if err := json.Unmarshal([]byte(line), &record); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	kind, _ := record["kind"].(string)
	if kind == "run" || kind == "waiting" {
		return kind
	}
	for _, field := range []string{
		"contender", "client", "workload", "pairs_per_second", "p50_ns", "p99_ns", "max_ns",
		"redis_cpu_us_per_pair", "commands_executed_per_pair", "allocations_per_pair",
	} {
		if record[field] == nil {
			t.Errorf("no %s: %s", field, line)
		}
	}
	if kind == "result" && record["commands_sent_per_pair"] != 2.0 && record["workload"] == "1" {
		t.Errorf("a pair is not two commands: %s", line)
	}
	return kind
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

// The help explains every flag, once, within the width of a terminal.
func TestHelp(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--help"}, io.Discard, &out); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("it returns %v", err)
	}
	(&options{}).flags(io.Discard).VisitAll(func(f *flag.Flag) {
		if n := len(regexp.MustCompile(`(?m)^  --`+f.Name+` `).FindAllString(out.String(), -1)); n != 1 {
			t.Errorf("--%s is explained %d times", f.Name, n)
		}
	})
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 121 {
			t.Errorf("too wide for a terminal: %s", line)
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

// recordsOf runs the program, and returns how many records of each kind it writes,
// and what it prints.
func recordsOf(t *testing.T, args ...string) (kinds map[string]int, printed string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures")
	var out strings.Builder
	if err := run(t.Context(), append(args, "--json", file), &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kinds = map[string]int{}
	for line := range strings.Lines(string(text)) {
		var record struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		kinds[record.Kind]++
	}
	return kinds, out.String()
}
