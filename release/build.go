package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// tool is the program that is built, below the repository's directory and path.
const tool = "cmd/holdfast"

// target is a system to build for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "_" + t.arch }

const (
	linux   = "linux"
	windows = "windows"
)

var (
	archs   = []string{"amd64", "arm64"}
	targets = systems([]string{linux, "darwin", windows}, archs)
)

// systems are all of these on all of those.
func systems(oses, archs []string) (all []target) {
	for _, system := range oses {
		for _, arch := range archs {
			all = append(all, target{system, arch})
		}
	}
	return all
}

// builder builds one version of the tool, from a module proxy that has nothing but that version.
type builder struct {
	repo    *repository
	version string
	commit  string
	date    time.Time // of the commit, and of all files in archives: a second build is equal
	work    string    // a directory for what is not kept
	dir     string
	env     []string
	images  []platform // the image's architectures, as far as they are built
}

// build builds the tool for some systems into a new directory: archives with the licences of
// all that is in them, a bill of materials for each, an image for Linux, checksums.
func (r *repository) build(ctx context.Context, version, dir string, targets []target) (err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	} else if err != nil && !os.IsNotExist(err) {
		return err
	}
	work, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	b := &builder{repo: r, version: version, work: work, dir: dir}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	fmt.Printf("building %s for %s/%s, for completions and the manual\n", version, runtime.GOOS, runtime.GOARCH)
	native, err := b.compile(ctx, target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return err
	}
	texts, err := b.texts(ctx, native.path)
	if err != nil {
		return err
	}
	for _, t := range targets {
		fmt.Printf("building %s for %s/%s\n", version, t.os, t.arch)
		if err := b.buildFor(ctx, t, texts); err != nil {
			return err
		}
	}
	if err := b.writeImage(); err != nil {
		return err
	}
	if err := writeChecksums(dir); err != nil {
		return err
	}
	fmt.Printf("%s is built, unsigned\n", dir)
	return nil
}

// prepare publishes the tree to a proxy of its own.
func (b *builder) prepare(ctx context.Context) error {
	commit, date, err := b.repo.commit(ctx)
	if err != nil {
		return err
	}
	changed, err := b.repo.changed(ctx)
	if err != nil {
		return err
	}
	if changed != "" {
		commit += "+changes"
	}
	b.commit = commit
	if b.date, err = time.Parse(time.RFC3339, date); err != nil {
		return err
	}
	proxy := filepath.Join(b.work, "proxy")
	if err := b.repo.publish(ctx, b.version, date, proxy); err != nil {
		return err
	}
	env, err := proxied(ctx, b.work, proxy)
	if err != nil {
		return err
	}
	b.env = append(environment(), env...)
	return os.MkdirAll(b.dir, 0o755) //nolint:gosec // for all to read
}

// environment returns this process's environment without the variables that could change a build: those of Go, cgo and
// the tool. Variables that only locate Go, its cache and its credentials stay.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "GOROOT", "GOTOOLCHAIN", "GOCACHE", "GOTMPDIR", "GOAUTH":
			return false
		}
		return strings.HasPrefix(name, "GO") || strings.HasPrefix(name, "CGO_") || strings.HasPrefix(name, "HOLDFAST_")
	})
}

// proxied are the variables with which the go command finds our modules in a proxy, and the others
// where it finds them elsewhere, with directories of its own: what is published there is not
// what will be. Nobody's checksum database knows our modules; the others' checksums are compared
// with go.sum (checkSums).
func proxied(ctx context.Context, work, proxy string) ([]string, error) {
	known, err := output(ctx, work, nil, "", "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, elsewhere, _ := strings.Cut(strings.TrimSpace(known), "\n")
	return []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")) + "," + elsewhere,
		"GOENV=off", "GOSUMDB=off", "GONOPROXY=", "GOPRIVATE=", "GOWORK=off", "GOFLAGS=-modcacherw",
		"GOPATH=" + filepath.Join(work, "gopath"), "GOMODCACHE=" + filepath.Join(work, "modules"), "GOBIN=",
	}, nil
}

// binary is the tool, built for one system.
type binary struct {
	path string
	info *buildinfo.BuildInfo
}

// compile builds the tool for a system, as go install does by its version. It compares the modules in it with go.sum
// before anything runs it: the proxy is not trusted.
func (b *builder) compile(ctx context.Context, t target) (binary, error) {
	in := ours + "/" + tool + "/internal/cli"
	env := append(slices.Clone(b.env), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0")
	_, err := output(ctx, b.work, env, "", "go", "install", "-trimpath", "-ldflags",
		fmt.Sprintf("-s -w -X %s.commit=%s -X %s.date=%s", in, b.commit, in, b.date.Format(time.RFC3339)), ours+"/"+tool+"@"+b.version)
	if err != nil {
		return binary{}, err
	}
	path := filepath.Join(b.work, "gopath", "bin")
	if t.os != runtime.GOOS || t.arch != runtime.GOARCH {
		path = filepath.Join(path, t.String())
	}
	path = filepath.Join(path, "holdfast")
	if t.os == windows {
		path += ".exe"
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, err
	}
	// This process compresses the archives, and its Go may do that differently.
	if built, here := goVersion(info.GoVersion), goVersion(runtime.Version()); built != here {
		return binary{}, fmt.Errorf("the go on the PATH is %s, and this program is built with %s", built, here)
	}
	return binary{path, info}, errors.Join(b.checkSums(info), checkStatic(path, t))
}

// goVersion cuts the experiments off a version of Go.
func goVersion(of string) string {
	number, _, _ := strings.Cut(of, " ")
	return number
}

// checkStatic fails if a binary for Linux needs anything that an empty image does not have.
func checkStatic(path string, t target) (err error) {
	if t.os != linux {
		return nil
	}
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return err
	}
	if len(libraries) > 0 || file.Section(".interp") != nil {
		return fmt.Errorf("%s is not static: it needs %q", path, libraries)
	}
	return nil
}

// text is a file that goes into archives.
type text struct {
	name    string
	content []byte
}

// texts are what the tool says of itself, and what else goes with it.
func (b *builder) texts(ctx context.Context, program string) ([]text, error) {
	var all []text
	for _, made := range []struct{ name, command string }{
		{"completions/holdfast.bash", "completion bash"},
		{"completions/_holdfast", "completion zsh"},
		{"completions/holdfast.fish", "completion fish"},
		{"man/holdfast.1", "man"},
	} {
		out, err := output(ctx, b.work, b.env, "", program, strings.Fields(made.command)...)
		if err != nil {
			return nil, err
		}
		all = append(all, text{made.name, []byte(out)})
	}
	for _, name := range []string{licence, "NOTICE", "CHANGELOG.md"} {
		content, err := os.ReadFile(filepath.Join(b.repo.dir, name)) //nolint:gosec // of the repository
		if err != nil {
			return nil, err
		}
		all = append(all, text{name, content})
	}
	return all, nil
}

// buildFor builds for one system.
func (b *builder) buildFor(ctx context.Context, t target, texts []text) error {
	built, err := b.compile(ctx, t)
	if err != nil {
		return err
	}
	licences, err := b.licences(ctx, built.info)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(built.path)
	if err != nil {
		return err
	}
	bill, err := materials(built.info, content, b.date)
	if err != nil {
		return err
	}
	name := "holdfast_" + b.version + "_" + t.String()
	if err := writeFile(filepath.Join(b.dir, name+billed), bill); err != nil {
		return err
	}
	texts = append([]text{{filepath.Base(built.path), content}, {"THIRD-PARTY-LICENSES", licences}}, texts...)
	if t.os == linux {
		b.images = append(b.images, platform{t.arch, texts})
	}
	var below []text
	for _, t := range texts {
		below = append(below, text{name + "/" + t.name, t.content})
	}
	if t.os == windows {
		archive, err := packZip(below, b.date)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(b.dir, name+zipped), archive)
	}
	archive, err := packTar(below, b.date)
	if err != nil {
		return err
	}
	if archive, err = compress(archive); err != nil {
		return err
	}
	return writeFile(filepath.Join(b.dir, name+packed), archive)
}

// checkSums compares what was built with the go.sum of the tool.
func (b *builder) checkSums(info *buildinfo.BuildInfo) error {
	text, err := os.ReadFile(filepath.Join(b.repo.dir, filepath.FromSlash(tool), "go.sum"))
	if err != nil {
		return err
	}
	known := "\n" + string(text)
	for _, dep := range info.Deps {
		if !b.repo.has(dep.Path) && !strings.Contains(known, "\n"+dep.Path+" "+dep.Version+" "+dep.Sum+"\n") {
			return fmt.Errorf("%s %s has the checksum %s, which is not in %s/go.sum", dep.Path, dep.Version, dep.Sum, tool)
		}
	}
	return nil
}

// licences are those of the modules that a binary has parts of: they want to go with it.
func (b *builder) licences(ctx context.Context, info *buildinfo.BuildInfo) ([]byte, error) {
	var all strings.Builder
	goroot, err := output(ctx, b.work, b.env, "", "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	found := func(name, dir string) error {
		n := 0
		for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*"} {
			files, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				return err
			}
			for _, file := range files {
				text, err := os.ReadFile(file) //nolint:gosec // of a module
				if err != nil {
					return err
				}
				n++
				fmt.Fprintf(&all, "%s: %s\n\n%s\n\n", name, filepath.Base(file), strings.TrimSpace(string(text)))
			}
		}
		if n == 0 {
			return fmt.Errorf("%s has no licence in %s", name, dir)
		}
		return nil
	}
	if err := found("Go "+info.GoVersion, strings.TrimSpace(goroot)); err != nil {
		return nil, err
	}
	for _, dep := range info.Deps {
		if b.repo.has(dep.Path) {
			continue
		}
		dir, err := output(ctx, b.work, b.env, "", "go", "mod", "download", "-json", dep.Path+"@"+dep.Version)
		if err != nil {
			return nil, err
		}
		if dir, err = moduleDir(dir); err != nil {
			return nil, err
		}
		if err := found(dep.Path+" "+dep.Version, dir); err != nil {
			return nil, err
		}
	}
	return []byte(all.String()), nil
}
