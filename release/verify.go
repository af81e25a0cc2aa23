package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// verify verifies a release in a directory: its tags, signature, checksums and bills of materials. Then it builds the
// release again and compares each file. The commit of the version must be checked out.
func (r *repository) verify(ctx context.Context, version, dir string) (err error) {
	commit, date, err := r.clean(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	for _, m := range r.published() {
		if err := r.verifyTag(ctx, m.tag(version), commit); err != nil {
			wrong = append(wrong, err)
		}
	}
	built, err := r.verifyFiles(ctx, version, dir, date)
	if wrong = append(wrong, err); errors.Join(wrong...) != nil {
		return errors.Join(wrong...)
	}
	if here := goVersion(runtime.Version()); built.with != here {
		return fmt.Errorf("%s is built with %s, and this is %s: set GOTOOLCHAIN=%s", dir, built.with, here, built.with)
	}
	work, err := os.MkdirTemp("", "holdfast-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	again := filepath.Join(work, "dist")
	if err := r.build(ctx, version, again, built.targets); err != nil {
		return err
	}
	n, err := compare(dir, again)
	if err != nil {
		return fmt.Errorf("%s is not what commit %s builds:\n%w", dir, commit, err)
	}
	fmt.Printf("the signatures of %s are good, and its %d files are the same, byte for byte, as built of commit %s with %s\n", version, n, commit, built.with)
	return nil
}

// builtFor holds the systems of a release, and the version of Go that built it.
type builtFor struct {
	targets []target
	with    string
}

// verifyFiles verifies the signature of SHA256SUMS, the checksum of each file, and the bill of materials of each archive. It
// reads no archive before its checksum is verified.
func (r *repository) verifyFiles(ctx context.Context, version, dir, date string) (builtFor, error) {
	var built builtFor
	sums, err := readFile(filepath.Join(dir, checksums))
	if err != nil {
		return built, err
	}
	signed, err := readFile(filepath.Join(dir, signature))
	if err != nil {
		return built, fmt.Errorf("%s is not signed: %w", checksums, err)
	}
	if err := r.verifySignature(ctx, ofFile, string(sums), string(signed)); err != nil {
		return built, fmt.Errorf("%s: %w", checksums, err)
	}
	names, err := verifyChecksums(version, dir, string(sums))
	if err != nil {
		return built, err
	}
	made, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return built, err
	}
	for _, name := range names {
		t, ok := targetOf(name)
		if !ok {
			continue
		}
		info, err := verifyMaterials(filepath.Join(dir, name), made)
		if err != nil {
			return built, err
		}
		built.targets, built.with = append(built.targets, t), goVersion(info.GoVersion)
	}
	if len(built.targets) == 0 {
		return built, fmt.Errorf("%s lists no archive", checksums)
	}
	return built, nil
}

// verifyChecksums compares the files of a directory with a list, and returns the names in it. It refuses unlisted files, and
// files of other versions: an old release has a valid signature as well.
func verifyChecksums(version, dir, sums string) ([]string, error) {
	var names []string
	var wrong []error
	for line := range strings.Lines(sums) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || name != filepath.Base(name) || slices.Contains(names, name) {
			return nil, fmt.Errorf("%s has a line that is none of a file: %q", checksums, line)
		}
		names = append(names, name)
		if !strings.HasPrefix(name, "holdfast_"+version+"_") {
			wrong = append(wrong, fmt.Errorf("%s is not a file of %s", name, version))
		}
		switch got, err := sumOf(filepath.Join(dir, name)); {
		case err != nil:
			wrong = append(wrong, err)
		case got != sum:
			wrong = append(wrong, fmt.Errorf("%s is not the file that was signed: its SHA-256 is %s, and %s has %s", name, got, checksums, sum))
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if name := entry.Name(); name != checksums && name != signature && !slices.Contains(names, name) {
			wrong = append(wrong, fmt.Errorf("%s is not in %s", name, checksums))
		}
	}
	return names, errors.Join(wrong...)
}

// sumOf returns the SHA-256 of a file.
func sumOf(path string) (sum string, err error) {
	if err := regular(path); err != nil {
		return "", err
	}
	file, err := os.Open(path) //nolint:gosec // in the directory that was asked for
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// readFile reads a file of a release.
func readFile(path string) ([]byte, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path) //nolint:gosec // in the directory that was asked for
}

// regular fails if a path is a directory, a pipe or a device: a read could block, or never end.
func regular(path string) error {
	info, err := os.Stat(path) //nolint:gosec // the paths of a release, and of its key
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", path)
	}
	return err
}

// verifyMaterials compares the bill of materials of an archive with the program in the archive, and returns how that was built.
func verifyMaterials(path string, made time.Time) (*buildinfo.BuildInfo, error) {
	files, err := unpack(path)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	program := files[0].content
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", files[0].name, err)
	}
	want, err := materials(info, program, made)
	if err != nil {
		return nil, err
	}
	beside := strings.TrimSuffix(strings.TrimSuffix(path, zipped), packed) + billed
	got, err := os.ReadFile(beside) //nolint:gosec // in the directory that was asked for
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(got, want) {
		return nil, fmt.Errorf("%s is not the bill of materials of %s: %s", filepath.Base(beside), files[0].name, difference(got, want))
	}
	return info, nil
}

// compare compares the files of a release with those of a second build, and returns their number. The error names each
// difference.
func compare(dir, again string) (n int, err error) {
	var wrong []error
	entries, err := os.ReadDir(again)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		name := entry.Name()
		theirs, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // in the directory that was asked for
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		ours, err := os.ReadFile(filepath.Join(again, name)) //nolint:gosec // what has just been built
		if err != nil {
			return 0, err
		}
		if n++; bytes.Equal(theirs, ours) {
			continue
		}
		how := difference(theirs, ours)
		if isArchive(name) {
			if how, err = differingFiles(filepath.Join(dir, name), filepath.Join(again, name)); err != nil {
				return 0, err
			}
		}
		wrong = append(wrong, fmt.Errorf("%s: %s", name, how))
	}
	// A listed file that the second build lacks makes SHA256SUMS differ; verifyFiles has refused unlisted files.
	return n, errors.Join(wrong...)
}

// differingFiles describes how the files in two archives differ.
func differingFiles(path, again string) (string, error) {
	theirs, err := unpack(path)
	if err != nil {
		return "", err
	}
	ours, err := unpack(again)
	if err != nil {
		return "", err
	}
	var all []string
	for _, t := range theirs {
		switch at := slices.IndexFunc(ours, func(o text) bool { return o.name == t.name }); {
		case at < 0:
			all = append(all, t.name+" is in the release alone")
		case !bytes.Equal(t.content, ours[at].content):
			all = append(all, t.name+" differs, "+difference(t.content, ours[at].content))
		}
	}
	for _, o := range ours {
		if !slices.ContainsFunc(theirs, func(t text) bool { return t.name == o.name }) {
			all = append(all, o.name+" is in the second build alone")
		}
	}
	if len(all) == 0 {
		return "the same files, packed in another way: order, times, modes or compression", nil
	}
	return strings.Join(all, "; "), nil
}

// difference describes the first difference of two texts: the lines, or the byte in binaries.
func difference(theirs, ours []byte) string {
	at := 0
	for at < len(theirs) && at < len(ours) && theirs[at] == ours[at] {
		at++
	}
	if bytes.IndexByte(theirs, 0) >= 0 || bytes.IndexByte(ours, 0) >= 0 {
		return fmt.Sprintf("from byte %d on", at+1)
	}
	start := bytes.LastIndexByte(ours[:at], '\n') + 1
	return fmt.Sprintf("line %d is %.100q, not %.100q", bytes.Count(ours[:at], []byte("\n"))+1, line(theirs[start:]), line(ours[start:]))
}

// line returns the first line of a text.
func line(text []byte) string {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return string(first)
}
