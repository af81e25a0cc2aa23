//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestTwoShells lets two shells run commands under one lock in turns, and
// compares when each was inside.
func TestTwoShells(t *testing.T) {
	t.Parallel()
	url := "redis://" + redistest.Start(t).Addr()
	dir := t.TempDir()
	const each = 15
	var shells sync.WaitGroup
	for shell := range 2 {
		script := fmt.Sprintf(`for i in $(seq %d); do
			holdfast run job -- sh -c 'echo "$(date +%%s%%N) $(sleep 0.01; date +%%s%%N)" >>"$1"' sh %s || exit
		done`, each, filepath.Join(dir, fmt.Sprint(shell)))
		cmd := holdfast(t, url)
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
		shells.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("shell %d: %v: %s", shell, err, out)
			}
		})
	}
	shells.Wait()
	type stay struct{ from, to int64 }
	var stays []stay
	for shell := range 2 {
		for line := range strings.Lines(read(t, filepath.Join(dir, fmt.Sprint(shell)))) {
			var s stay
			if _, err := fmt.Sscan(line, &s.from, &s.to); err != nil {
				t.Fatal(err)
			}
			stays = append(stays, s)
		}
	}
	if len(stays) != 2*each {
		t.Errorf("%d stays, want %d", len(stays), 2*each)
	}
	slices.SortFunc(stays, func(a, b stay) int { return int(a.from - b.from) })
	for i := 1; i < len(stays); i++ {
		if stays[i].from < stays[i-1].to {
			t.Errorf("one was inside from %d to %d, another from %d on", stays[i-1].from, stays[i-1].to, stays[i].from)
		}
	}
}

// TestFifty lets fifty commands append to one file, each in three writes, and
// count in another, reading and writing.
func TestFifty(t *testing.T) {
	t.Parallel()
	url := "redis://" + redistest.Start(t).Addr()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "count"), "0\n")
	const n = 50
	script := `printf "begin $1 " >>file; printf "middle $1 " >>file; n=$(cat count); printf "end $1\n" >>file; echo $((n+1)) >count`
	var all sync.WaitGroup
	for i := range n {
		cmd := holdfast(t, url, "run", "-q", "file", "--", "sh", "-c", script, "sh", fmt.Sprint(i))
		cmd.Dir = dir
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%d: %v: %s", i, err, out)
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	line := regexp.MustCompile(`^begin (\d+) middle (\d+) end (\d+)\n$`)
	for text := range strings.Lines(read(t, filepath.Join(dir, "file"))) {
		m := line.FindStringSubmatch(text)
		if m == nil || m[1] != m[2] || m[2] != m[3] || seen[m[1]] {
			t.Errorf("torn or doubled: %q", text)
			continue
		}
		seen[m[1]] = true
	}
	if got := strings.TrimSpace(read(t, filepath.Join(dir, "count"))); len(seen) != n || got != fmt.Sprint(n) {
		t.Errorf("%d lines and a count of %s, want %d", len(seen), got, n)
	}
}

// TestSemaphore lets twelve commands run, three at a time, and compares when each
// was inside.
func TestSemaphore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	const n, permits = 12, 3
	var all sync.WaitGroup
	for i := range n {
		cmd := holdfast(t, "redis://"+server.Addr(), "run", "-q", "--kind", "permits", "--permits", fmt.Sprint(permits), "jobs", "--",
			"sh", "-c", `echo "$(date +%s%N) $(sleep 0.15; date +%s%N)" >$0`, filepath.Join(dir, fmt.Sprint(i)))
		all.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%d: %v: %s", i, err, out)
			}
		})
	}
	all.Wait()
	type change struct {
		at int64
		by int
	}
	var changes []change
	for i := range n {
		var from, to int64
		if _, err := fmt.Sscan(read(t, filepath.Join(dir, fmt.Sprint(i))), &from, &to); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, change{from, 1}, change{to, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return int(a.at - b.at) })
	inside, most := 0, 0
	for _, c := range changes {
		inside += c.by
		most = max(most, inside)
	}
	if most < 2 || most > permits {
		t.Errorf("%d commands were inside at once, want up to %d", most, permits)
	}
	if free, held := server.Cli(t, "GET", "jobs"), server.Cli(t, "ZCARD", "{jobs}:timeout"); free != fmt.Sprint(permits) || held != "0" {
		t.Errorf("%s permits are available, %s held", free, held)
	}
}

// toolDir is a directory in which the tool is found by its name.
func toolDir(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
