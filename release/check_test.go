package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, wrong := range map[string]string{
		"v0.9.0": "", "v1.2.3": "", "v1.0.0-rc.1": "",
		"0.9.0": "is no version", "v1.2": "is no version", "v1.2.3+build": "is no version", "": "is no version",
		"v0.0.0-20260102030405-0123456789ab": "pseudo-version",
		"v2.0.0":                             "/v2",
	} {
		err := checkVersion(version)
		if (wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want %q", version, err, wrong)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil, {"make"}, {"build", "v1.2.3"}, {"make", "v1.2.3"}, {"verify", "v1.2.3"}, {"publish", "v1.2.3"}, {"pin", "v1.2.3", "x"}, {"check", "v1.2.3", "x"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestPin pins a version where nothing else is changed.
func TestPin(t *testing.T) {
	t.Parallel()
	repo := scratch(t)
	want := map[string]string{}
	for _, file := range []string{"go.mod", "goredisdriver/go.mod", "test/go.mod", "go.work"} {
		want[file] = strings.ReplaceAll(read(t, repo.dir, file), ours+" v0.0.0", ours+" v0.3.0")
	}
	if err := repo.pin("v0.3.0"); err != nil {
		t.Fatal(err)
	}
	for file, want := range want {
		if got := read(t, repo.dir, file); got != want {
			t.Errorf("%s is\n%swant\n%s", file, got, want)
		}
	}
}

// TestCheckAndTag finds each thing that is wrong, and then tags, once.
func TestCheckAndTag(t *testing.T) {
	t.Parallel()
	repo, key := scratch(t), newKey(t)
	announce(t, repo.dir, key)
	commit(t, repo.dir)
	const version = "v0.3.0"
	refused := func(whatFor string) {
		t.Helper()
		repo = reopen(t, repo.dir)
		dist := filepath.Join(t.TempDir(), "dist")
		for _, try := range []error{repo.check(t.Context(), version, key), repo.make(t.Context(), version, dist, key, nil)} {
			if try == nil || !strings.Contains(try.Error(), whatFor) {
				t.Errorf("%v, want %q", try, whatFor)
			}
		}
		if _, err := os.Stat(dist); err == nil {
			t.Error("it builds what it refuses")
		}
	}
	refused("goredisdriver/go.mod requires " + ours + " v0.0.0")
	if err := repo.pin(version); err != nil {
		t.Fatal(err)
	}
	refused("not committed")
	commit(t, repo.dir)

	for _, wrong := range []struct{ file, old, changed, says string }{
		{"CHANGELOG.md", "0.3.0", "0.3.1", "no heading ## 0.3.0"},
		{"README.md", "# holdfast", "    go mod edit -replace " + ours + "=../holdfast", "README.md says how to do without"},
		{"README.zh-CN.md", "# holdfast", "    go mod edit -replace " + ours + "=../holdfast", "README.zh-CN.md says how to do without"},
		{"go.mod", "go 1.25.0\n", "go 1.25.0\n\nreplace example.com/other => ../other\n", "has a replace line"},
		{"go.work", "replace (\n\t" + ours + " v0.3.0 => .\n)\n", "", "go.work has no line"},
		{"goredisdriver/go.mod", "require (", "require (\n\t" + ours + "/test v0.3.0", "is not published"},
		{"goredisdriver/go.mod", "require (", "require (\n\t" + ours + "/gone v0.3.0", "not in go.work"},
		{"goredisdriver/two.go", "goredisdriver\n", "goredisdriver\n\nimport _ \"" + ours + "/internal/call\"\n", "goredisdriver/two.go imports " + ours + "/internal/call"},
	} {
		before := read(t, repo.dir, wrong.file)
		after := strings.Replace(before, wrong.old, wrong.changed, 1)
		if strings.Contains(wrong.says, "not published") { // but in its place
			write(t, strings.Replace(read(t, repo.dir, "go.work"), "replace (", "replace (\n\t"+ours+"/test v0.3.0 => ./test", 1), repo.dir, "go.work")
		}
		if after == before {
			t.Fatalf("%s does not have %q", wrong.file, wrong.old)
		}
		write(t, after, repo.dir, wrong.file)
		refused(wrong.says)
		command(t, repo.dir, nil, "git", "checkout", "-q", ".")
	}

	command(t, repo.dir, nil, "git", "tag", "goredisdriver/"+version)
	refused("goredisdriver/v0.3.0 exists")
	if tags := command(t, repo.dir, nil, "git", "tag"); strings.Contains(tags, "\n"+version) {
		t.Errorf("some modules are tagged: %q", tags)
	}
	command(t, repo.dir, nil, "git", "tag", "-d", "goredisdriver/"+version)
	repo = reopen(t, repo.dir)
	if err := repo.check(t.Context(), version, key); err != nil {
		t.Fatal(err)
	}
	hash, _, err := repo.clean(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"v0.3.0", "goredisdriver/v0.3.0"}
	if names, err := repo.tag(t.Context(), version, hash, key); err != nil || !slices.Equal(names, want) {
		t.Fatal(names, err)
	}
	if tags := command(t, repo.dir, nil, "git", "tag"); tags != "goredisdriver/v0.3.0\nv0.3.0\n" {
		t.Errorf("the tags are %q", tags)
	}
	if _, err := repo.tag(t.Context(), version, hash, key); err == nil {
		t.Error("it tags twice")
	}
}

// TestModulesOfThisRepository are as a release wants them, whatever the version is.
func TestModulesOfThisRepository(t *testing.T) {
	t.Parallel()
	repo := here(t)
	pinned := ""
	for _, m := range repo.modules {
		for _, require := range m.file.Require {
			if require.Mod.Path == ours {
				pinned = require.Mod.Version
			}
		}
	}
	for _, wrong := range repo.checkModules(pinned) {
		t.Error(wrong)
	}
	if err := repo.checkImports(t.Context()); err != nil {
		t.Error(err)
	}
	known := map[string]bool{}
	for _, m := range repo.modules {
		known[filepath.Join(m.dir, "go.mod")] = true
	}
	tracked, err := git(t.Context(), repo.dir, "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.FieldsSeq(tracked) {
		if !known[file] && !strings.Contains(file, "testdata") {
			t.Errorf("%s is not in go.work", file)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(repo.dir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(makefile)) {
		list, ok := strings.CutPrefix(line, "MODULES ")
		for _, m := range repo.modules {
			if ok && !strings.Contains(list+" ", " "+m.dir+" ") && !strings.HasSuffix(list, " "+m.dir+"\n") {
				t.Errorf("the Makefile's MODULES does not have %s", m.dir)
			}
		}
	}
}
