package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// secrets are what the environment of a build may have, and nothing that it makes.
var secrets = map[string]string{
	"HOLDFAST_REDIS":           "redis://release:kittiwake@127.0.0.1:1",
	"HOLDFAST_REDIS_PASSWORD":  "guillemot",
	"HOLDFAST_DASHBOARD_TOKEN": "razorbill-razorbill",
	"GITHUB_TOKEN":             "storm-petrel",
}

// identity is git's, wherever the tests run.
var identity = map[string]string{
	"GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@example.com", "GIT_COMMITTER_NAME": "test", "GIT_COMMITTER_EMAIL": "test@example.com",
}

func TestMain(m *testing.M) {
	for _, all := range []map[string]string{secrets, identity} {
		for name, value := range all {
			if err := os.Setenv(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// released is a release for one system, of a copy of this repository that is ready for it.
type released struct {
	repo    *repository
	version string
	key     string
	dist    string
	work    string // a directory for others
}

// release makes one as make release does.
func release(t *testing.T) released {
	t.Helper()
	r := released{version: "v0.9.0", key: newKey(t), work: t.TempDir()}
	r.dist = filepath.Join(r.work, r.version)
	r.repo = candidate(t, r.version, r.key)
	if err := r.repo.make(t.Context(), r.version, r.dist, r.key, []target{{linux, runtime.GOARCH}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// candidate is a copy of this repository, with what the owner does before a release.
func candidate(t *testing.T, version, key string) *repository {
	t.Helper()
	from, dir := here(t), t.TempDir()
	for _, m := range from.modules {
		files, err := from.files(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			path := filepath.Join(dir, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(from.dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(read(t, from.dir, file)), info.Mode().Perm()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := reopen(t, command(t, dir, nil, "git", "init", "-q")+dir).pin(version); err != nil {
		t.Fatal(err)
	}
	announce(t, dir, key)
	write(t, strings.Replace(read(t, dir, "CHANGELOG.md"), "## Unreleased", "## [0.9.0] - 2026-01-02", 1), dir, "CHANGELOG.md")
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		write(t, strings.ReplaceAll(read(t, dir, name), "go mod edit -replace", "go get"), dir, name)
	}
	commit(t, dir)
	// git log shows signatures of commits where log.showSignature says so.
	command(t, dir, nil, "git", "-c", "gpg.format=ssh", "-c", "user.signingKey="+key, "commit", "-q", "--amend", "--no-edit", "-S")
	return reopen(t, dir)
}

// TestRelease makes a release, looks what is in it, and verifies it as a stranger does, by the page. Whatever somebody has
// changed since, is found, and named.
func TestRelease(t *testing.T) {
	r := release(t)
	t.Run("files", r.checkFiles)
	t.Run("image", r.checkImage)
	t.Run("again", func(t *testing.T) {
		if err := r.repo.build(t.Context(), r.version, r.dist, nil); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("into the same directory: %v", err)
		}
		if err := r.repo.make(t.Context(), r.version, t.TempDir(), r.key, nil); err == nil || !strings.Contains(err.Error(), "the tag v0.9.0 exists already") {
			t.Errorf("the same version: %v", err)
		}
	})
	t.Run("stranger", r.checkPage)
	t.Run("changed", r.checkChanges)
	t.Run("clone", r.checkClone)
	t.Run("source", r.checkSource)
	t.Run("other source", r.checkOtherSource)
}

func (r released) checkFiles(t *testing.T) {
	native := target{linux, runtime.GOARCH}
	name := "holdfast_" + r.version + "_" + native.String()
	files := filesOf(t, filepath.Join(r.dist, name+packed))
	for _, want := range []string{
		"holdfast", "LICENSE", "NOTICE", "CHANGELOG.md", "THIRD-PARTY-LICENSES",
		"man/holdfast.1", "completions/holdfast.bash", "completions/_holdfast", "completions/holdfast.fish",
	} {
		if len(files[name+"/"+want]) == 0 {
			t.Errorf("there is no %s", want)
		}
	}
	for _, want := range []string{"github.com/redis/go-redis/v9 v", "Go go1."} {
		if !strings.Contains(files[name+"/THIRD-PARTY-LICENSES"], want) {
			t.Errorf("the licences do not have that of %s", want)
		}
	}
	r.checkProgram(t, files[name+"/holdfast"])
	checkMaterials(t, filepath.Join(r.dist, name+billed), r.version, files[name+"/holdfast"])
	checkChecksums(t, r.dist, name+packed, name+billed, "holdfast_v0.9.0_image.tar", "holdfast_v0.9.0_image.digest")
	checkSecrets(t, r.dist, files, r.repo.dir, strings.Split(read(t, r.key), "\n")[1])
}

// checkProgram runs a program, where it runs.
func (r released) checkProgram(t *testing.T, content string) {
	t.Helper()
	if runtime.GOOS != linux {
		return
	}
	binary := filepath.Join(t.TempDir(), "holdfast")
	if err := os.WriteFile(binary, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	hash, date, err := r.repo.commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := command(t, t.TempDir(), nil, binary, "version")
	if !strings.HasPrefix(said, "holdfast "+r.version+", commit "+hash) || !strings.Contains(said, ", date "+date+", ") {
		t.Errorf("it says %q", said)
	}
}

// checkImage follows the image from its digest to its files, each of which has the digest by which it is named.
func (r released) checkImage(t *testing.T) {
	blobs := filesOf(t, filepath.Join(r.dist, "holdfast_v0.9.0_image.tar"))
	open := func(digest string, value any) string {
		content := blobs["blobs/"+strings.Replace(digest, ":", "/", 1)]
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))); got != digest {
			t.Fatalf("%s has the digest %s", digest, got)
		}
		if value != nil {
			if err := json.Unmarshal([]byte(content), value); err != nil {
				t.Fatal(err)
			}
		}
		return content
	}
	var top, index oci.Index
	if err := json.Unmarshal([]byte(blobs["index.json"]), &top); err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimSpace(read(t, r.dist, "holdfast_v0.9.0_image.digest"))
	if len(top.Manifests) != 1 || top.Manifests[0].Digest.String() != digest {
		t.Fatalf("the image is %v, not %s", top.Manifests, digest)
	}
	open(digest, &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("it is for %v", index.Manifests)
	}
	var manifest oci.Manifest
	open(index.Manifests[0].Digest.String(), &manifest)
	var config oci.Image
	open(manifest.Config.Digest.String(), &config)
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/holdfast"}) {
		t.Errorf("it runs %v", config.Config)
	}
	if len(manifest.Layers) != 1 {
		t.Fatalf("there are %d layers", len(manifest.Layers))
	}
	layer := filepath.Join(t.TempDir(), "layer"+packed)
	write(t, open(manifest.Layers[0].Digest.String(), nil), layer)
	files := filesOf(t, layer)
	r.checkProgram(t, files["usr/local/bin/holdfast"])
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(files["etc/ssl/certs/ca-certificates.crt"])) {
		t.Error("it has no certificates")
	}
	for _, want := range []string{"LICENSE", "NOTICE", "THIRD-PARTY-LICENSES"} {
		if files["licenses/"+want] == "" {
			t.Errorf("it has no %s", want)
		}
	}
}

// checkPage runs the commands of docs/verify.md in a folder of another depth, in another environment than the one that the release was
// built in.
func (r released) checkPage(t *testing.T) {
	page := read(t, r.repo.dir, "docs", "verify.md")
	clone := "https://" + ours
	if n := strings.Count(page, "git clone "+clone+"\n"); n != 1 {
		t.Fatalf("the page has %d commands that clone", n)
	}
	commands := blocks(strings.ReplaceAll(page, clone, r.repo.dir+" holdfast"), "sh")
	if len(commands) != 4 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	said := []string{"SHA256:", "v0.9.0\n", `Good "file" signature for holdfast-releases`, "byte for byte"}
	dir := filepath.Join(t.TempDir(), "some where", "else")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, r.version), os.DirFS(r.dist)); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"TZ=Asia/Kathmandu", "LC_ALL=tr_TR.UTF-8", "LANG=tr_TR.UTF-8", "COLUMNS=20", "NO_COLOR=1",
		"GOFLAGS=-tags=other -buildvcs=true -ldflags=-w", "GOPROXY=off", "GOPRIVATE=*", "CGO_ENABLED=1",
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=core.autocrlf", "GIT_CONFIG_VALUE_0=true",
		"GIT_CONFIG_KEY_1=log.showSignature", "GIT_CONFIG_VALUE_1=true", "GIT_CONFIG_KEY_2=status.showUntrackedFiles", "GIT_CONFIG_VALUE_2=no",
	}
	for i, line := range commands {
		if out := command(t, dir, env, "sh", "-ec", "umask 077\n"+line); !strings.Contains(out, said[i]) {
			t.Errorf("%s says %q, not %q", line, out, said[i])
		}
	}
}

// checkChanges changes one thing at a time.
func (r released) checkChanges(t *testing.T) {
	archive := "holdfast_v0.9.0_linux_" + runtime.GOARCH + packed
	bill := strings.TrimSuffix(archive, packed) + billed
	other := newKey(t)
	flip := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			text := []byte(read(t, dir, name))
			text[len(text)/2] ^= 1
			write(t, string(text), dir, name)
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		says   string
	}{
		"archive":           {flip(archive), archive + " is not the file that was signed"},
		"bill of materials": {flip(bill), bill + " is not the file that was signed"},
		"image":             {flip("holdfast_v0.9.0_image.tar"), "holdfast_v0.9.0_image.tar is not the file that was signed"},
		"digest":            {flip("holdfast_v0.9.0_image.digest"), "holdfast_v0.9.0_image.digest is not the file that was signed"},
		"checksums":         {flip(checksums), "SHA256SUMS: the signature is not by a key in release/allowed_signers, or the text has changed"},
		"signature":         {flip(signature), "SHA256SUMS: the signature is not by a key"},
		"no signature":      {func(t *testing.T, dir string) { remove(t, dir, signature) }, "SHA256SUMS is not signed"},
		"no archive":        {func(t *testing.T, dir string) { remove(t, dir, archive) }, archive + ": no such file"},
		"one more file":     {func(t *testing.T, dir string) { write(t, "run me", dir, "install.sh") }, "install.sh is not in SHA256SUMS"},
		"another key": {func(t *testing.T, dir string) {
			flip(archive)(t, dir)
			resign(t, dir, other)
		}, "SHA256SUMS: the signature is not by a key"},
		"signed for another purpose": {func(t *testing.T, dir string) {
			remove(t, dir, signature)
			command(t, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", r.key, checksums)
		}, "SHA256SUMS: the signature is not by a key"},
		"another version": {func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "holdfast_v0.9.0_image.digest"), filepath.Join(dir, "holdfast_v0.8.0_image.digest")); err != nil {
				t.Fatal(err)
			}
			resign(t, dir, r.key)
		}, "holdfast_v0.8.0_image.digest is not a file of v0.9.0"},
		"a pipe": {func(t *testing.T, dir string) {
			remove(t, dir, archive)
			command(t, dir, nil, "mkfifo", archive)
		}, archive + " is no file"},
		"bill of another program": {func(t *testing.T, dir string) {
			write(t, strings.Replace(read(t, dir, bill), "github.com/redis/go-redis/v9", "example.com/other", 1), dir, bill)
			resign(t, dir, r.key)
		}, bill + " is not the bill of materials of holdfast_v0.9.0_linux_" + runtime.GOARCH + "/holdfast: line "},
		"a path": {func(t *testing.T, dir string) {
			write(t, read(t, dir, checksums)+strings.Repeat("0", 64)+"  ../../secret\n", dir, checksums)
			remove(t, dir, signature)
			command(t, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", r.key, checksums)
		}, "SHA256SUMS has a line that is none of a file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dist")
			if err := os.CopyFS(dir, os.DirFS(r.dist)); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			if err := r.repo.verify(t.Context(), r.version, dir); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// checkClone changes the clone of a stranger: a tag, and then a file.
func (r released) checkClone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "clone")
	command(t, "", nil, "git", "clone", "-q", r.repo.dir, dir)
	repo := reopen(t, dir)
	refused := func(whatFor string) {
		t.Helper()
		if err := repo.verify(t.Context(), r.version, r.dist); err == nil || !strings.Contains(err.Error(), whatFor) {
			t.Errorf("%v, want %q", err, whatFor)
		}
	}
	command(t, dir, nil, "git", "update-ref", "refs/tags/memdriver/v0.9.0", "refs/tags/otel/v0.9.0")
	refused("the tag memdriver/v0.9.0 is of commit ")
	command(t, dir, nil, "git", "update-ref", "-d", "refs/tags/memdriver/v0.9.0")
	refused("there is no tag memdriver/v0.9.0")
	command(t, dir, nil, "git", "fetch", "-q", "--tags")
	command(t, dir, nil, "git", "commit", "-q", "--allow-empty", "-m", "another")
	refused("the tag v0.9.0 is of commit ")
	command(t, dir, nil, "git", "checkout", "-q", "--detach", r.version)
	write(t, "package holdfast\n", dir, "more.go")
	command(t, dir, nil, "git", "config", "status.showUntrackedFiles", "no")
	refused("not committed:\n?? more.go")
}

// checkSource refuses a module that the tool's go.sum does not have, before it runs what it has built of that.
func (r released) checkSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "clone")
	command(t, "", nil, "git", "clone", "-q", r.repo.dir, dir)
	sums := read(t, dir, "cmd", "holdfast", "go.sum")
	known := strings.Fields(regexp.MustCompile("github.com/alecthomas/kong v.* h1:.*").FindString(sums))
	write(t, strings.Replace(sums, known[2], "h1:0000", 1), dir, "cmd", "holdfast", "go.sum")
	b := &builder{repo: reopen(t, dir), version: r.version, work: t.TempDir(), dir: t.TempDir()}
	if err := b.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	built, err := b.compile(t.Context(), target{linux, runtime.GOARCH})
	if want := known[0] + " " + known[1] + " has the checksum " + known[2]; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, %v; want %q", built, err, want)
	}
}

// checkOtherSource signs, with the right key, what the tag does not build: only the second build finds that.
func (r released) checkOtherSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	if err := os.CopyFS(dir, os.DirFS(r.dist)); err != nil {
		t.Fatal(err)
	}
	stem := "holdfast_v0.9.0_linux_" + runtime.GOARCH
	files, err := unpack(filepath.Join(dir, stem+packed))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(files, func(f text) bool { return strings.HasSuffix(f.name, ".bash") })
	files[at].content = append(files[at].content, "echo gotcha\n"...)
	var archive bytes.Buffer
	zipper := gzip.NewWriter(&archive)
	w := tar.NewWriter(zipper)
	for _, f := range append(files, text{stem + "/more", nil}) {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.content)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipper.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, archive.String(), dir, stem+packed)
	resign(t, dir, r.key)
	err = r.repo.verify(t.Context(), r.version, dir)
	for _, want := range []string{
		"is not what commit", stem + packed + ": " + stem + "/completions/holdfast.bash differs, line ", `"echo gotcha", not ""`, stem + "/more is in the release alone",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "/holdfast differs") {
		t.Errorf("it names what is the same: %v", err)
	}
}

// resign writes and signs the checksums of a directory.
func resign(t *testing.T, dir, key string) {
	t.Helper()
	remove(t, dir, checksums)
	remove(t, dir, signature)
	if err := writeChecksums(dir); err != nil {
		t.Fatal(err)
	}
	command(t, dir, nil, "ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", key, checksums)
}

func remove(t *testing.T, path ...string) {
	t.Helper()
	if err := os.Remove(filepath.Join(path...)); err != nil {
		t.Fatal(err)
	}
}

// filesOf are those of an archive, by their names.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	all, err := unpack(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range all {
		files[f.name] = string(f.content)
	}
	return files
}

// checkSecrets finds none of the environment in what a release has, nor anything else that is not to be there.
func checkSecrets(t *testing.T, dir string, archived map[string]string, more ...string) {
	t.Helper()
	files := maps.Clone(archived)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files[path] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		for _, secret := range append(append(slices.Collect(maps.Values(secrets)), "kittiwake"), more...) {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q in it", name, secret)
			}
		}
	}
}

// checkMaterials reads a bill of materials.
func checkMaterials(t *testing.T, path, version, program string) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(strings.NewReader(read(t, path)), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	main := bom.Metadata.Component
	if main.Version != version || (*main.Hashes)[0].Value != fmt.Sprintf("%x", sha256.Sum256([]byte(program))) || bom.SpecVersion != cdx.SpecVersion1_6 {
		t.Errorf("it is one of %v, of version %v", main, bom.SpecVersion)
	}
	for _, want := range []string{"pkg:golang/" + ours + "@" + version, "pkg:golang/github.com/redis/go-redis/v9@v", "pkg:golang/std@1."} {
		if !slices.ContainsFunc(*bom.Components, func(c cdx.Component) bool { return strings.HasPrefix(c.PackageURL, want) }) {
			t.Errorf("the bill of materials does not have %s", want)
		}
	}
}

// checkChecksums compares SHA256SUMS with the files.
func checkChecksums(t *testing.T, dir string, files ...string) {
	t.Helper()
	var found []string
	for line := range strings.Lines(read(t, dir, checksums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, dir, name)))); got != sum {
			t.Errorf("the checksum of %s is %s, not %s", name, got, sum)
		}
		found = append(found, name)
	}
	slices.Sort(found)
	slices.Sort(files)
	if !slices.Equal(found, files) {
		t.Errorf("there are checksums of %q, not of %q", found, files)
	}
}
