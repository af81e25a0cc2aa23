package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestDeploy runs every command line of docs/deploy.md on a real server, with programs that say
// their name in the place of those that it speaks of.
func TestDeploy(t *testing.T) {
	repo := here(t)
	page := read(t, repo.dir, "docs", "deploy.md")
	bin := t.TempDir()
	command(t, filepath.Join(repo.dir, tool), []string{"CGO_ENABLED=0"}, "go", "build", "-o", filepath.Join(bin, "holdfast"), ".")
	for _, program := range []string{"report", "migrate", "scheduler"} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\necho ran "+program+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	units := unitsOf(t, page, bin)
	lines := map[string][]string{}
	for name, words := range manifests(t, page) {
		lines["Kubernetes "+name] = words
	}
	for name, text := range units {
		if line, ok := setting(text, "ExecStart"); ok {
			lines["systemd "+name] = strings.Fields(line)
		}
	}
	for i, line := range crontab(t, page) {
		lines[fmt.Sprint("cron ", i)] = []string{"sh", "-c", line}
	}
	if len(lines) != 8 {
		t.Fatalf("there are %d command lines: %q", len(lines), lines)
	}
	ran := regexp.MustCompile(`(?m)^ran \w+ (--full|--serve|up)$`)
	for name, words := range lines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOLDFAST_REDIS=redis://" + server.Addr()}
			// As a path, since exec looks for a name in our PATH.
			first, err := exec.LookPath(words[0])
			if words[0] == "holdfast" {
				first, err = filepath.Join(bin, "holdfast"), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(words, "--every") {
				loads(t, server, env, first, words[1:]...)
				return
			}
			if out := command(t, bin, env, first, words[1:]...); !ran.MatchString(out) {
				t.Errorf("%q says %q", words, out)
			}
			if !strings.Contains(strings.Join(words, " "), "--min-hold") {
				return
			}
			// At once again, as on another host.
			cmd := exec.CommandContext(t.Context(), first, words[1:]...)
			cmd.Env = append(os.Environ(), env...)
			out, err := cmd.CombinedOutput()
			succeeds := strings.Contains(strings.Join(words, " "), "--conflict-exit-code 0")
			allowed := succeeds
			if text, ok := strings.CutPrefix(name, "systemd "); ok {
				status, _ := setting(units[text], "SuccessExitStatus")
				allowed = status == "75" && cmd.ProcessState.ExitCode() == 75
			}
			if ran.Match(out) || (err == nil) != succeeds || !allowed {
				t.Errorf("a second time: %v: %q", err, out)
			}
		})
	}
}

// blocks are those of a language in a page.
func blocks(page, language string) (all []string) {
	for _, part := range strings.Split(page, "```"+language+"\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		all = append(all, text)
	}
	return all
}

// manifests are the commands of all containers, by the names of what they stand in. Every
// container that asks for the lock knows where.
func manifests(t *testing.T, page string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, block := range blocks(page, "yaml") {
		for decoder := yaml.NewDecoder(strings.NewReader(block)); ; {
			var manifest map[string]any
			err := decoder.Decode(&manifest)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			name := manifest["metadata"].(map[string]any)["name"].(string)
			for _, container := range containers(manifest) {
				words, ok := container["command"].([]any)
				if args, only := container["args"].([]any); only && !ok { // of the image's own program
					words, ok = append([]any{"holdfast"}, args...), true
				}
				if !ok {
					continue
				}
				for _, word := range words {
					found[name] = append(found[name], fmt.Sprint(word))
				}
				if text := fmt.Sprint(container["env"]); !strings.Contains(text, "HOLDFAST_REDIS") || !strings.Contains(text, "secretKeyRef") {
					t.Errorf("%s: the address of Redis is not known", name)
				}
			}
			if selector, ok := manifest["spec"].(map[string]any)["selector"]; ok {
				template := manifest["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
				if fmt.Sprint(selector.(map[string]any)["matchLabels"]) != fmt.Sprint(template["labels"]) {
					t.Errorf("%s selects other pods than its own", name)
				}
			}
		}
	}
	return found
}

// containers are those that stand anywhere in a manifest.
func containers(in any) (all []map[string]any) {
	switch in := in.(type) {
	case map[string]any:
		for key, value := range in {
			list, ok := value.([]any)
			if ok && (key == "containers" || key == "initContainers") {
				for _, container := range list {
					all = append(all, container.(map[string]any))
				}
				continue
			}
			all = append(all, containers(value)...)
		}
	case []any:
		for _, value := range in {
			all = append(all, containers(value)...)
		}
	}
	return all
}

// loads runs a command that goes on until a signal ends it: it loads the scripts, and loads them again when the server has lost them.
func loads(t *testing.T, server *redistest.Server, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	loader := redistest.StartChild(t, cmd)
	for range 2 {
		limit := time.Now().Add(time.Minute)
		for loaded := false; !loaded; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("no scripts are loaded")
			}
			loaded = !strings.Contains(server.Cli(t, "INFO", "memory"), "number_of_cached_scripts:0")
		}
		server.Cli(t, "SCRIPT", "FLUSH")
	}
	if err := loader.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-loader.Done()
	if code := loader.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("SIGTERM ends it with %d", code)
	}
}

// unitsOf are the units of systemd by their names, with the programs in bin. If systemd is
// here, it verifies them.
func unitsOf(t *testing.T, page, bin string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	units := map[string]string{}
	var files []string
	for _, block := range blocks(page, "ini") {
		name, text, _ := strings.Cut(strings.TrimPrefix(block, "# "), "\n")
		text = strings.ReplaceAll(text, "/usr/local/bin/", bin+"/")
		units[name] = text
		write(t, text, dir, name)
		files = append(files, filepath.Join(dir, name))
	}
	if len(units) != 4 {
		t.Errorf("there are %d units", len(units))
	}
	slices.Sort(files)
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("there is no systemd here")
		return units
	}
	out, err := exec.CommandContext(t.Context(), analyze, append([]string{"verify", "--recursive-errors=no"}, files...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze: %v: %s", err, out)
	}
	return units
}

// setting is what a unit says.
func setting(unit, key string) (string, bool) {
	for line := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return value, true
		}
	}
	return "", false
}

// crontab are the command lines of crontabs, for a shell.
func crontab(t *testing.T, page string) (lines []string) {
	t.Helper()
	for _, block := range blocks(page, "crontab") {
		for line := range strings.Lines(block) {
			fields := strings.SplitN(strings.TrimSpace(line), " ", 7) // five of the time, and the user
			if len(fields) == 7 {
				if strings.Contains(fields[6], "%") {
					t.Errorf("cron makes a new line of the %% in %s", fields[6])
				}
				lines = append(lines, fields[6])
			}
		}
	}
	return lines
}
