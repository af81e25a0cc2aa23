package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// ours is the path of the root module, with which the paths of all others begin.
const ours = "github.com/holdfast-go/holdfast"

// licence is the file with the licence of what stands beside it.
const licence = "LICENSE"

// unpublished are the modules that nobody imports or installs: they have no versions.
var unpublished = []string{"bench", "interop", "release", "robustness", "test"}

// repository is a working copy of this repository.
type repository struct {
	dir     string
	work    *modfile.WorkFile
	modules []mod
}

// mod is one of its modules.
type mod struct {
	dir  string // below the repository's; "." is the root
	file *modfile.File
}

func (m mod) path() string    { return m.file.Module.Mod.Path }
func (m mod) published() bool { return !slices.Contains(unpublished, m.dir) && !m.example() }

// example reports whether it is a program to read, and to begin with.
func (m mod) example() bool { return strings.HasPrefix(m.dir, "examples/") }

// tag is what a version of the module is called in git.
func (m mod) tag(version string) string {
	if m.dir == "." {
		return version
	}
	return m.dir + "/" + version
}

// open reads the repository that a directory belongs to: the modules of its go.work.
func open(ctx context.Context, dir string) (*repository, error) {
	top, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r := &repository{dir: strings.TrimSpace(top)}
	text, err := os.ReadFile(r.workFile())
	if err != nil {
		return nil, err
	}
	if r.work, err = modfile.ParseWork(r.workFile(), text, nil); err != nil {
		return nil, err
	}
	for _, use := range r.work.Use {
		m := mod{dir: filepath.ToSlash(filepath.Clean(use.Path))}
		text, err := os.ReadFile(r.modFile(m))
		if err != nil {
			return nil, err
		}
		if m.file, err = modfile.Parse(r.modFile(m), text, nil); err != nil {
			return nil, err
		}
		r.modules = append(r.modules, m)
	}
	return r, nil
}

func (r *repository) workFile() string     { return filepath.Join(r.dir, "go.work") }
func (r *repository) modFile(m mod) string { return filepath.Join(r.dir, m.dir, "go.mod") }

// published are the modules that a release consists of.
func (r *repository) published() []mod {
	return slices.DeleteFunc(slices.Clone(r.modules), func(m mod) bool { return !m.published() })
}

// has reports whether a module path is one of the repository's.
func (r *repository) has(path string) bool {
	return slices.ContainsFunc(r.modules, func(m mod) bool { return m.path() == path })
}

// requiring is a go.mod with the repository's modules required in a version.
func (r *repository) requiring(m mod, version string) ([]byte, error) {
	text, err := m.file.Format()
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(m.file.Syntax.Name, text, nil)
	if err != nil {
		return nil, err
	}
	for _, require := range slices.Clone(file.Require) {
		if !r.has(require.Mod.Path) {
			continue
		}
		if err := file.AddRequire(require.Mod.Path, version); err != nil {
			return nil, err
		}
	}
	return file.Format()
}

// pin has all modules require each other in a version, and go.work stand in for it.
func (r *repository) pin(version string) error {
	for _, m := range r.modules {
		text, err := r.requiring(m, version)
		if err != nil {
			return err
		}
		if err := overwrite(r.modFile(m), text); err != nil {
			return err
		}
	}
	for _, replace := range r.work.Replace {
		if at := slices.Index(replace.Syntax.Token, replace.Old.Version); at >= 0 && r.has(replace.Old.Path) {
			replace.Syntax.Token[at] = version
		}
	}
	return overwrite(r.workFile(), modfile.Format(r.work.Syntax))
}

// overwrite changes what is in a file.
func overwrite(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, info.Mode().Perm()) //nolint:gosec // a file of the repository
}

// files are those of a module, as a commit of everything would have them: paths below the
// repository's directory.
func (r *repository) files(ctx context.Context, m mod) ([]string, error) {
	out, err := git(ctx, r.dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", m.dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for path := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(r.dir, path))
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() && r.owner(path).dir == m.dir {
			found = append(found, path)
		}
	}
	return found, nil
}

// owner is the module that a file belongs to: the innermost one.
func (r *repository) owner(path string) mod {
	var owner mod
	for _, m := range r.modules {
		if (m.dir == "." || strings.HasPrefix(path, m.dir+"/")) && (owner.dir == "" || owner.dir == "." || len(m.dir) > len(owner.dir)) {
			owner = m
		}
	}
	return owner
}

// commit is what is checked out: its hash and its date.
func (r *repository) commit(ctx context.Context) (hash, date string, err error) {
	out, err := git(ctx, r.dir, "log", "-1", "--no-show-signature", "--format=%H %cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ")
	if err != nil {
		return "", "", err
	}
	hash, date, _ = strings.Cut(strings.TrimSpace(out), " ")
	return hash, date, nil
}

// clean returns the same as commit. It fails if there are uncommitted changes.
func (r *repository) clean(ctx context.Context) (hash, date string, err error) {
	changed, err := r.changed(ctx)
	if err != nil {
		return "", "", err
	}
	if changed != "" {
		return "", "", fmt.Errorf("there are changes that are not committed:\n%s", changed)
	}
	return r.commit(ctx)
}

// changed lists uncommitted changes, including files that git is configured to hide.
func (r *repository) changed(ctx context.Context) (string, error) {
	out, err := git(ctx, r.dir, "status", "--porcelain", "--untracked-files=all")
	return strings.TrimRight(out, "\n"), err
}

// git runs git, in UTC and without replaced objects, and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return gitWith(ctx, dir, "", args...)
}

// gitWith runs git with a standard input.
func gitWith(ctx context.Context, dir, input string, args ...string) (string, error) {
	return output(ctx, dir, append(os.Environ(), "TZ=UTC", "GIT_NO_REPLACE_OBJECTS=1"), input, "git", args...)
}

// output runs a command with a standard input and returns what it prints. A nil environment is this program's.
// The error includes the command's standard error.
func output(ctx context.Context, dir string, env []string, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // git, ssh-keygen, go, and what go has built
	cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
