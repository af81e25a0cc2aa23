package main

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// checkVersion says what is wrong with a version, if anything is.
func checkVersion(version string) error {
	switch {
	case !semver.IsValid(version) || semver.Canonical(version) != version:
		return fmt.Errorf("%q is no version: write v1.2.3 or v1.2.3-rc.1, in full and without build metadata", version)
	case module.IsPseudoVersion(version):
		return fmt.Errorf("%s is a pseudo-version, which Go makes by itself of a commit", version)
	case semver.Compare(version, "v2.0.0-0") >= 0:
		return fmt.Errorf("%s needs module paths that end in /%s (https://go.dev/ref/mod#major-version-suffixes)", version, semver.Major(version))
	}
	return nil
}

// check says everything that keeps the tree from being released as a version, signed by a key.
func (r *repository) check(ctx context.Context, version, key string) error {
	wrong := r.checkModules(version)
	if _, _, err := r.clean(ctx); err != nil {
		wrong = append(wrong, err)
	}
	if err := r.checkKey(ctx, key); err != nil {
		wrong = append(wrong, err)
	}
	if err := r.checkImports(ctx); err != nil {
		wrong = append(wrong, err)
	}
	if err := r.checkTexts(version); err != nil {
		wrong = append(wrong, err)
	}
	tags, err := git(ctx, r.dir, "tag", "--list")
	if err != nil {
		return err
	}
	for _, m := range r.published() {
		if slices.Contains(strings.Fields(tags), m.tag(version)) {
			wrong = append(wrong, fmt.Errorf("the tag %s exists already", m.tag(version)))
		}
	}
	return errors.Join(wrong...)
}

// checkModules says which modules could not be published in a version.
func (r *repository) checkModules(version string) (wrong []error) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	stands := map[string]bool{} // in go.work for the version
	for _, replace := range r.work.Replace {
		stands[replace.Old.Path] = replace.Old.Version == version
	}
	for _, m := range r.modules {
		if len(m.file.Replace) > 0 {
			note("%s/go.mod has a replace line: go install refuses such a module; the line belongs into go.work", m.dir)
		}
		for _, require := range m.file.Require {
			path := require.Mod.Path
			switch at := slices.IndexFunc(r.modules, func(m mod) bool { return m.path() == path }); {
			case at < 0:
				if strings.HasPrefix(path+"/", ours+"/") {
					note("%s/go.mod requires %s, which is not in go.work", m.dir, path)
				}
			case require.Mod.Version != version:
				note("%s/go.mod requires %s %s: run make pin VERSION=%s and commit", m.dir, path, require.Mod.Version, version)
			case !stands[path]:
				note("go.work has no line with replace %s %s", path, version)
			case m.published() && !r.modules[at].published():
				note("%s/go.mod requires %s, which is not published", m.dir, path)
			}
		}
	}
	return wrong
}

// checkImports says which published modules import an internal package of another one. A program
// may combine an older version of the one with a newer version of the other, which need not have that
// package. The tool may do so: nobody requires it, so it is built with the versions in its go.mod. So may
// tests: nobody compiles those of a module that is required.
func (r *repository) checkImports(ctx context.Context) error {
	var wrong []error
	for _, m := range r.published() {
		if m.dir == tool {
			continue
		}
		files, err := r.files(ctx, m)
		if err != nil {
			return err
		}
		for _, file := range files {
			if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(r.dir, file), nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range parsed.Imports {
				path := strings.Trim(spec.Path.Value, "`\"")
				if strings.HasPrefix(path, ours+"/") && strings.Contains(path+"/", "/internal/") && !strings.HasPrefix(path, m.path()+"/") {
					wrong = append(wrong, fmt.Errorf("%s imports %s, which other versions of that module need not have", file, path))
				}
			}
		}
	}
	return errors.Join(wrong...)
}

// checkTexts says whether the documents speak of the version.
func (r *repository) checkTexts(version string) error {
	changelog, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(version, "v")
	found := false
	for line := range strings.Lines(string(changelog)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "##" {
			found = found || strings.Trim(fields[1], "[]v") == number
		}
	}
	var wrong []error
	if !found {
		wrong = append(wrong, fmt.Errorf("CHANGELOG.md has no heading ## %s", number))
	}
	const unpublished = "go mod edit -replace " + ours
	for _, file := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile(filepath.Join(r.dir, file)) //nolint:gosec // of the repository
		if err != nil {
			return err
		}
		if strings.Contains(string(text), unpublished) {
			wrong = append(wrong, fmt.Errorf("%s says how to do without a release: %s", file, unpublished))
		}
	}
	return errors.Join(wrong...)
}
