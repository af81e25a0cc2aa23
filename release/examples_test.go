package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestExamples builds the programs of examples/ as those do who have copied them into a repository of their own, and runs several of
// each at a time.
func TestExamples(t *testing.T) {
	const version = "v0.0.0-test"
	repo := here(t)
	_, env := published(t, repo, t.TempDir(), version)
	checks := map[string]func(t *testing.T, start func(args ...string) *running){
		"examples/cron": checkCron, "examples/leader": checkLeader, "examples/cache": checkCache,
		"examples/workers": checkWorkers, "examples/fencing": checkFencing,
	}
	for _, m := range repo.modules {
		if !m.example() {
			continue
		}
		check := checks[m.dir]
		if check == nil {
			t.Errorf("nobody runs %s", m.dir)
			continue
		}
		delete(checks, m.dir)
		t.Run(filepath.Base(m.dir), func(t *testing.T) {
			built := buildExample(t, repo, m, version, env)
			server := redistest.Start(t)
			check(t, func(args ...string) *running { return startProgram(t, server, built, args...) })
		})
	}
	for dir := range checks {
		t.Errorf("there is no %s", dir)
	}
}

// buildExample builds an example outside of the repository, with the modules that are published.
func buildExample(t *testing.T, repo *repository, m mod, version string, env []string) (path string) {
	t.Helper()
	dir := t.TempDir()
	files, err := repo.files(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		write(t, read(t, repo.dir, file), dir, filepath.Base(file))
	}
	gomod, err := repo.requiring(m, version)
	if err != nil {
		t.Fatal(err)
	}
	write(t, string(gomod), dir, "go.mod")
	command(t, dir, env, "go", "build", "-mod=mod", "-trimpath", "-o", "example", ".")
	return filepath.Join(dir, "example")
}

// running is a program that runs.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // what it says; closed when it says no more
	all   strings.Builder
	end   func() error // waits for its end
}

func startProgram(t *testing.T, server *redistest.Server, path string, args ...string) *running {
	t.Helper()
	p := &running{t: t, cmd: exec.CommandContext(t.Context(), path, args...), lines: make(chan string, 1000)}
	p.cmd.Env = append(p.cmd.Environ(), "REDIS_URL=redis://"+server.Addr())
	output, input := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = input, input
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.end = sync.OnceValue(func() error {
		err := p.cmd.Wait()
		_ = input.Close() // of a pipe in memory it is always nil
		return err
	})
	go func() { _ = p.end() }()
	go func() {
		defer close(p.lines)
		for all := bufio.NewScanner(output); all.Scan(); {
			p.lines <- all.Text()
		}
	}()
	return p
}

// await waits until the program has said something.
func (p *running) await(what string) {
	p.t.Helper()
	for line := range p.lines {
		p.all.WriteString(line + "\n")
		if strings.Contains(line, what) {
			return
		}
	}
	p.t.Fatalf("it has ended without %q: %v\n%s", what, p.end(), p.all.String())
}

// said waits for the end of the program, which is to be a good one, and returns what it has said.
func (p *running) said() string {
	p.t.Helper()
	for line := range p.lines {
		p.all.WriteString(line + "\n")
	}
	if err := p.end(); err != nil {
		p.t.Fatalf("%v\n%s", err, p.all.String())
	}
	return p.all.String()
}

// checkCron: one of three does the job.
func checkCron(t *testing.T, start func(args ...string) *running) {
	var all []*running
	for range 3 {
		all = append(all, start())
	}
	done, not := 0, 0
	for _, p := range all {
		said := p.said()
		done += strings.Count(said, "the job is done")
		not += strings.Count(said, "not here: ")
	}
	if done != 1 || not != 2 {
		t.Errorf("%d have done the job, and %d have not", done, not)
	}
}

// checkLeader: another follows a leader who is killed.
func checkLeader(t *testing.T, start func(args ...string) *running) {
	first := start()
	first.await("leading")
	second := start()
	second.await("a candidate")
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	second.await("leading")
	if err := second.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if said := second.said(); !strings.HasSuffix(said, "not leading any more\n") {
		t.Errorf("it ends with %q", said)
	}
}

// checkCache: nobody reads two versions.
func checkCache(_ *testing.T, start func(args ...string) *running) {
	var all []*running
	for range 2 {
		all = append(all, start(), start("rebuild"))
	}
	for _, p := range all {
		p.said()
	}
}

// checkWorkers: no more than two calls are under way at a time.
func checkWorkers(t *testing.T, start func(args ...string) *running) {
	jobs, atOnce := 0, regexp.MustCompile(`job \d+: call (\d+) of`)
	for _, p := range []*running{start(), start()} {
		for _, found := range atOnce.FindAllStringSubmatch(p.said(), -1) {
			jobs++
			if n, err := strconv.Atoi(found[1]); err != nil || n < 1 || n > 2 {
				t.Errorf("there were %s calls at once", found[1])
			}
		}
	}
	if jobs != 40 {
		t.Errorf("%d jobs were done", jobs)
	}
}

// checkFencing: the late one is refused, and the metrics tell of both.
func checkFencing(t *testing.T, start func(args ...string) *running) {
	said := start().said()
	for _, want := range []string{"written by the newer holder", "refused: ", "holdfast_acquire_duration_seconds: 2,"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}
