package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestInstall publishes the modules to a proxy, and uses them as those do who know nothing of
// this repository: it installs the tool, and builds the program of the README, with each adapter.
func TestInstall(t *testing.T) {
	const version = "v0.0.0-test"
	repo := here(t)
	work := t.TempDir()
	_, env := published(t, repo, work, version)

	t.Run("tool", func(t *testing.T) {
		command(t, t.TempDir(), env, "go", "install", "-trimpath", ours+"/"+tool+"@"+version)
		said := command(t, work, env, filepath.Join(work, "gopath", "bin", "holdfast"), "version")
		if want := fmt.Sprintf("holdfast %s, %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH); said != want {
			t.Errorf("it says %q, want %q", said, want)
		}
	})

	server := redistest.Start(t)
	for adapter, text := range programs(t, repo) {
		t.Run(adapter, func(t *testing.T) {
			checkQuickstart(t, env, server, text, ours+"@"+version, ours+"/"+adapter+"@"+version)
		})
	}
}

// TestOlderAdapter builds the program of the README with each adapter and a newer root, which has
// none of the internal packages that the adapter was published with.
func TestOlderAdapter(t *testing.T) {
	const older, newer = "v0.0.1", "v0.0.2"
	repo := here(t)
	proxy, env := published(t, repo, t.TempDir(), older)
	republish(t, proxy, ours, older, newer, func(files map[string]string) {
		for name, text := range maps.Clone(files) {
			delete(files, name)
			if inside, ok := strings.CutPrefix(name, "internal/"); ok {
				name = "internal/newer/" + inside
			}
			files[name] = strings.ReplaceAll(text, ours+"/internal/", ours+"/internal/newer/")
		}
	})
	server := redistest.Start(t)
	programs := programs(t, repo)
	for adapter, text := range programs {
		t.Run(adapter, func(t *testing.T) {
			checkQuickstart(t, env, server, text, ours+"@"+newer, ours+"/"+adapter+"@"+older)
		})
	}

	// The test can fail: an adapter that imports an internal package works with the older root alone.
	t.Run("inside", func(t *testing.T) {
		const inside = older + "-inside"
		adapter := ours + "/goredisdriver"
		republish(t, proxy, adapter, older, inside, func(files map[string]string) {
			files["inside.go"] = "package goredisdriver\n\nimport _ \"" + ours + "/internal/list\"\n"
		})
		if _, err := quickstart(t, env, programs["goredisdriver"], ours+"@"+older, adapter+"@"+inside); err != nil {
			t.Error(err)
		}
		_, err := quickstart(t, env, programs["goredisdriver"], ours+"@"+newer, adapter+"@"+inside)
		if err == nil || !strings.Contains(err.Error(), "package "+ours+"/internal/list") {
			t.Errorf("with a newer root: %v", err)
		}
	})
}

// TestReplaced gets the modules as the README says while nothing is published: in a folder that has only
// the README's program, and a test that imports every module, the commands there make both build.
func TestReplaced(t *testing.T) {
	repo := here(t)
	_, after, _ := strings.Cut(read(t, repo.dir, "README.md"), "    go mod init ")
	commands, _, ok := strings.Cut(after, "\n\n")
	if !ok {
		t.Fatal("README.md has no commands for modules that are not published")
	}
	work := t.TempDir()
	mine := filepath.Join(work, "mine")
	if err := errors.Join(os.Mkdir(mine, 0o755), os.Symlink(repo.dir, filepath.Join(work, "holdfast"))); err != nil {
		t.Fatal(err)
	}
	env := []string{"GOWORK=off", "CGO_ENABLED=0"}
	write(t, program(t, repo), mine, "main.go")
	text := "package main\n\nimport (\n"
	for _, m := range repo.published() {
		if name := m.path(); m.dir != tool && m.dir != "otel/example" { // these are programs
			text += "\t_ \"" + name + "\"\n"
		}
	}
	write(t, text+")\n", mine, "main_test.go")
	command(t, mine, env, "sh", "-ec", "go mod init "+commands)
	command(t, mine, env, "go", "test", ".")
}

// published publishes the modules in a version to a proxy below work. It returns the proxy's directory, and
// the environment in which the go command uses it.
func published(t *testing.T, repo *repository, work, version string) (proxy string, env []string) {
	t.Helper()
	proxy = filepath.Join(work, "proxy")
	if err := repo.publish(t.Context(), version, "2026-01-02T03:04:05Z", proxy); err != nil {
		t.Fatal(err)
	}
	env, err := proxied(t.Context(), work, proxy)
	if err != nil {
		t.Fatal(err)
	}
	return proxy, append(env, "CGO_ENABLED=0")
}

// republish publishes one more version of a module, with other files than an older one. The keys of
// files are paths below the module's directory.
func republish(t *testing.T, proxy, path, older, newer string, change func(files map[string]string)) {
	t.Helper()
	base := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	archive, err := zip.OpenReader(filepath.Join(base, older+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string]string{}
	for _, entry := range archive.File {
		text, err := fs.ReadFile(archive, entry.Name)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(entry.Name, path+"@"+older+"/")] = string(text)
	}
	change(files)
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range files {
		entry, err := w.Create(path + "@" + newer + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(entry, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, out.String(), base, newer+".zip")
	write(t, files["go.mod"], base, newer+".mod")
	write(t, strings.ReplaceAll(read(t, base, older+".info"), older, newer), base, newer+".info")
	write(t, read(t, base, "list")+newer+"\n", base, "list")
}

// checkQuickstart builds a program with modules in some versions, and runs it.
func checkQuickstart(t *testing.T, env []string, server *redistest.Server, text string, modules ...string) {
	t.Helper()
	program, err := quickstart(t, env, text, modules...)
	if err != nil {
		t.Fatal(err)
	}
	out := command(t, filepath.Dir(program), []string{"REDIS_URL=redis://" + server.Addr()}, program)
	if !strings.Contains(out, "done") {
		t.Errorf("it says %q", out)
	}
	for _, module := range modules {
		path, version, _ := strings.Cut(module, "@")
		if got := command(t, filepath.Dir(program), env, "go", "list", "-m", path); got != path+" "+version+"\n" {
			t.Errorf("it was built with %q, want %s", got, module)
		}
	}
}

// quickstart builds a program in a module of its own, which requires modules in some versions.
func quickstart(t *testing.T, env []string, text string, modules ...string) (program string, err error) {
	t.Helper()
	dir := t.TempDir()
	write(t, text, dir, "main.go")
	for _, args := range [][]string{
		{"mod", "init", "example.com/quickstart"},
		append([]string{"get"}, modules...),
		{"build", "-trimpath", "-o", "quickstart", "."},
	} {
		if _, err := output(t.Context(), dir, append(os.Environ(), env...), "", "go", args...); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "quickstart"), nil
}

// programs are that of the README with each adapter.
func programs(t *testing.T, repo *repository) map[string]string {
	t.Helper()
	program := program(t, repo)
	return map[string]string{
		"goredisdriver": program,
		"rueidisdriver": pipelined(t, program, "rueidis", "github.com/redis/rueidis"),
		"valkeydriver":  pipelined(t, program, "valkey", "github.com/valkey-io/valkey-go"),
	}
}

// program is that of the README.
func program(t *testing.T, repo *repository) string {
	t.Helper()
	_, after, ok := strings.Cut(read(t, repo.dir, "README.md"), "```go\n")
	text, _, closed := strings.Cut(after, "```\n")
	if !ok || !closed || !strings.HasPrefix(text, "package main") {
		t.Fatal("the README has no program")
	}
	return text
}

// pipelined is the same program with rueidis, or its fork.
func pipelined(t *testing.T, program, name, path string) string {
	t.Helper()
	return changed(t, program,
		"\t\"github.com/redis/go-redis/v9/logging\"\n", "",
		"\tlogging.Disable() // go-redis logs each failed connection; holdfast returns an error\n", "",
		"github.com/redis/go-redis/v9", path,
		"holdfast/goredisdriver", "holdfast/"+name+"driver",
		"redis.ParseURL", name+".ParseURL",
		"\tclient, err := holdfast.New(goredisdriver.New(redis.NewClient(options)))", strings.ReplaceAll(`	connection, err := rueidis.NewClient(options)
	if err != nil {
		return err
	}
	defer connection.Close()
	client, err := holdfast.New(rueidisdriver.New(connection))`, "rueidis", name))
}

// changed replaces texts that must be there: old, new, old, new.
func changed(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("the program of the README does not have %q", pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// TestStatic finds a program that is not: the dynamic loader says so.
func TestStatic(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if runtime.GOOS != "linux" || err != nil {
		t.Skip("there is no shell of Linux here")
	}
	if err := checkStatic(shell, target{"linux", runtime.GOARCH}); err == nil {
		t.Errorf("%s is static", shell)
	}
}

// TestSums finds a module that the tool's go.sum does not have, or has otherwise.
func TestSums(t *testing.T) {
	t.Parallel()
	b := &builder{repo: here(t)}
	known := strings.Fields(read(t, b.repo.dir, "cmd/holdfast/go.sum"))
	for _, c := range []struct {
		dep  debug.Module
		fine bool
	}{
		{debug.Module{Path: known[0], Version: known[1], Sum: known[2]}, true},
		{debug.Module{Path: ours, Version: "v1.2.3", Sum: "h1:ours"}, true},
		{debug.Module{Path: known[0], Version: known[1], Sum: known[2][:10]}, false},
		{debug.Module{Path: "example.com/other", Version: "v1.2.3", Sum: known[2]}, false},
	} {
		err := b.checkSums(&debug.BuildInfo{Deps: []*debug.Module{&c.dep}})
		if c.fine != (err == nil) {
			t.Errorf("%v: %v", c.dep, err)
		}
	}
}
