package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKey says what is wrong with a key before anything is built, and never shows its private half.
func TestKey(t *testing.T) {
	t.Parallel()
	key, other := newKey(t), newKey(t)
	repo := scratch(t)
	refused := func(key string, whatFor ...string) {
		t.Helper()
		err := repo.checkKey(t.Context(), key)
		for _, want := range whatFor {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	refused("", "RELEASE_KEY is not set", "make release VERSION=v… RELEASE_KEY=", "make release-dry-run")
	refused(key, "release/allowed_signers: no such file", `holdfast-releases namespaces="git,file"`)
	announce(t, repo.dir, key)
	if err := repo.checkKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	refused(filepath.Join(t.TempDir(), "none"), "RELEASE_KEY", "no such file")
	refused(t.TempDir(), "RELEASE_KEY")
	refused(other, "the signature is not by a key in release/allowed_signers", "SECURITY.md does not have the fingerprint of the key that signs, SHA256:")

	// ssh-keygen would wait for somebody to write.
	pipe := filepath.Join(t.TempDir(), "pipe")
	command(t, "", nil, "mkfifo", pipe)
	refused(pipe, pipe+" is no file")

	// The public half alone signs with what ssh-agent has, and there is none.
	alone := filepath.Join(t.TempDir(), "alone.pub")
	write(t, read(t, key+".pub"), alone)
	refused(alone, "ssh-keygen cannot sign with "+alone)

	// A key in the repository would be published with it, also by another name.
	inside := filepath.Join(repo.dir, "key")
	if err := os.WriteFile(inside, []byte(read(t, key)), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(inside, "is in the repository")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	refused(link, "is in the repository")

	// A key that signs other things alone signs no release.
	for _, namespaces := range []string{"git", "file", "ssh"} {
		write(t, strings.Replace(read(t, repo.dir, signers), "git,file", namespaces, 1), repo.dir, signers)
		refused(key, "the signature is not by a key in release/allowed_signers")
		write(t, strings.Replace(read(t, repo.dir, signers), `"`+namespaces+`"`, `"git,file"`, 1), repo.dir, signers)
	}
	write(t, strings.Replace(read(t, repo.dir, signers), signedBy, "somebody-else", 1), repo.dir, signers)
	refused(key, "the signature is not by a key in release/allowed_signers")
}

// TestTags verifies those that a release has, with git, too, and finds each one that is none of them.
func TestTags(t *testing.T) {
	t.Parallel()
	const version = "v0.3.0"
	repo, key, other := scratch(t), newKey(t), newKey(t)
	announce(t, repo.dir, key)
	commit(t, repo.dir)
	hash, _, err := repo.clean(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names, err := repo.tag(t.Context(), version, hash, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := repo.verifyTag(t.Context(), name, hash); err != nil {
			t.Error(err)
		}
		said := command(t, repo.dir, nil, "git", "-c", "gpg.ssh.allowedSignersFile="+signers, "verify-tag", "--format=%(tag)", "refs/tags/"+name)
		if said != name+"\n" {
			t.Errorf("git says %q of %s", said, name)
		}
	}
	point := func(to string) { command(t, repo.dir, nil, "git", "update-ref", "refs/tags/"+version, to) }
	made := func(text string) string {
		t.Helper()
		id, err := gitWith(t.Context(), repo.dir, text, "mktag")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(id)
	}
	text := command(t, repo.dir, nil, "git", "cat-file", "tag", version)
	unsigned, _, _ := strings.Cut(text, "-----BEGIN")
	refused := func(whatFor string) {
		t.Helper()
		if err := repo.verifyTag(t.Context(), version, hash); err == nil || !strings.Contains(err.Error(), whatFor) {
			t.Errorf("%v, want %q", err, whatFor)
		}
	}
	point(hash)
	refused("the tag v0.3.0 is not signed: it is only a name of a commit")
	point(made(unsigned))
	refused("the tag v0.3.0 has no signature of an SSH key")
	point(made(strings.Replace(text, "holdfast v0.3.0\n", "holdfast v0.3.1\n", 1)))
	refused("the tag v0.3.0: the signature is not by a key in release/allowed_signers, or the text has changed")
	point("refs/tags/goredisdriver/" + version)
	refused(`its signed text says "object ` + hash + `\ntype commit\ntag goredisdriver/v0.3.0"`)
	announced := read(t, repo.dir, signers)
	announce(t, repo.dir, other)
	signed, err := repo.sign(t.Context(), other, ofTag, unsigned)
	if err != nil {
		t.Fatal(err)
	}
	write(t, announced, repo.dir, signers)
	point(made(unsigned + signed))
	refused("the tag v0.3.0: the signature is not by a key in release/allowed_signers")
	command(t, repo.dir, nil, "git", "tag", "-d", version)
	refused("there is no tag v0.3.0")

	// The same tag, once more: but the commit is another one.
	point(made(text))
	commit := command(t, repo.dir, nil, "git", "commit-tree", "-m", "another", "HEAD^{tree}")
	if err := repo.verifyTag(t.Context(), version, strings.TrimSpace(commit)); err == nil || !strings.Contains(err.Error(), "is of commit "+strings.TrimSpace(commit)+" here") {
		t.Errorf("another commit: %v", err)
	}
}

// TestEnvironment keeps what a build needs, and drops what changes it.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"GOFLAGS", "GOAMD64", "GOEXPERIMENT", "GOFIPS140", "GOWORK", "CGO_CFLAGS", "HOLDFAST_REDIS"} {
		t.Setenv(name, "dropped")
	}
	t.Setenv("GOTOOLCHAIN", "kept")
	all := strings.Join(environment(), "\n") + "\n"
	if strings.Contains(all, "=dropped\n") || !strings.Contains(all, "GOTOOLCHAIN=kept\n") || !strings.Contains(all, "PATH=") {
		t.Errorf("it is\n%s", all)
	}
}
