package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A quick run has a figure in every cell, or says why it has not; holdfast has
// one, and no overlap.
func TestQuick(t *testing.T) {
	o, err := parse([]string{"--quick", "--redis", redistest.Start(t).Addr()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := o.measure(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if want := len(contenders())*len(workloads()) - 2; len(r.entries) != want { // nothing bare on a shared lock
		t.Errorf("%d entries, want %d", len(r.entries), want)
	}
	for _, e := range r.entries {
		checkEntry(t, o, e)
	}
	if names := r.overlapped(); names != nil {
		t.Errorf("overlapped: %v", names)
	}
}

func checkEntry(t *testing.T, o options, e entry) {
	t.Helper()
	if len(e.rounds) != o.rounds {
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

// The whole program, with a server of its own, writes a table and the figures.
func TestOwnServerAndFiles(t *testing.T) {
	dir := t.TempDir()
	file, mem := filepath.Join(dir, "figures.json"), filepath.Join(dir, "allocs")
	var out strings.Builder
	args := []string{"--quick", "--only", "bare", "--workloads", "1,64", "--json", file, "--memprofile", mem}
	if err := run(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| bare scripts on go-redis ", "| bare scripts on rueidis ", "p99", "Redis "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output:\n%s", want, out.String())
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Cells []rawEntry `json:"cells"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	if len(raw.Cells) != 4 || len(raw.Cells[0].Rounds) != 2 {
		t.Errorf("%d cells in the file", len(raw.Cells))
	}
	if found, err := os.Stat(mem); err != nil || found.Size() == 0 {
		t.Errorf("no profile: %v", err)
	}
}

// The scripts of every kind are measured on both sides.
func TestScripts(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"--scripts", "--quick"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"mutex", "fair lock", "read lock", "write lock", "permit", "the barest pair"} {
		if row := regexp.MustCompile(`(?m)^\| ` + kind + ` +\| +[1-9][0-9.]* \|`); !row.MatchString(out.String()) {
			t.Errorf("no figure of %s in the output:\n%s", kind, out.String())
		}
	}
}

func TestBadUsage(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"word"}, {"--rounds", "0"}, {"--duration", "-1s"}, {"--lease", "1s"}, {"--scripts", "--only", "bare"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"--only", "nobody"}, io.Discard, io.Discard); err == nil {
		t.Error("a run of nothing is no error")
	}
}
