package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is for how long a command may run: it may have to compile everything.
const patience = 10 * time.Minute

// here is the repository that the tests are in.
func here(t *testing.T) *repository {
	t.Helper()
	repo, err := open(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// scratch is a repository with three modules, of which one is not published: what a release wants.
func scratch(t *testing.T) *repository {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                  "module " + ours + "\n\ngo 1.25.0\n",
		"one.go":                  "package holdfast\n",
		"goredisdriver/go.mod":    "module " + ours + "/goredisdriver\n\ngo 1.25.0\n\nrequire (\n\texample.com/other v0.0.0 // indirect\n\t" + ours + " v0.0.0\n)\n",
		"goredisdriver/two.go":    "package goredisdriver\n",
		"goredisdriver/own.go":    "package goredisdriver\n\nimport (\n\t_ \"" + ours + "/driver\"\n\t_ \"" + ours + "/goredisdriver/internal/own\"\n)\n",
		"goredisdriver/a_test.go": "package goredisdriver\n\nimport _ \"" + ours + "/internal/call\"\n",
		"test/go.mod":             "module " + ours + "/test\n\ngo 1.25.0\n\nrequire " + ours + " v0.0.0 // indirect\n",
		"test/three.go":           "package test\n",
		"go.work":                 "go 1.25.0\n\nuse (\n\t.\n\t./goredisdriver\n\t./test\n)\n\n// why\nreplace (\n\t" + ours + " v0.0.0 => .\n)\n",
		"CHANGELOG.md":            "# Changelog\n\n## [0.3.0] - 2026-01-02\n\n## Unreleased\n",
		"README.md":               "# holdfast\n",
		"README.zh-CN.md":         "# holdfast\n",
		"LICENSE":                 "free\n",
		"SECURITY.md":             "# Security\n",
		".gitignore":              "/ignored\n",
		"goredisdriver/LICENSE":   "also free\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command(t, dir, nil, "git", "init", "-q")
	commit(t, dir)
	return reopen(t, dir)
}

// newKey makes a key that signs.
func newKey(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "key")
	command(t, "", nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path)
	return path
}

// announce has a repository say that a key signs its releases, as the owner does by what CONTRIBUTING.md says.
func announce(t *testing.T, dir, key string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "release"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, "holdfast-releases namespaces=\"git,file\" "+read(t, key+".pub"), dir, "release", "allowed_signers")
	mark, err := fingerprint(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, read(t, dir, "SECURITY.md")+mark+"\n", dir, "SECURITY.md")
}

func reopen(t *testing.T, dir string) *repository {
	t.Helper()
	repo, err := open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

func commit(t *testing.T, dir string) {
	t.Helper()
	command(t, dir, nil, "git", "add", "-A")
	command(t, dir, nil, "git", "commit", "-q", "-m", "test")
}

// command runs a command, and returns what it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, text string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
