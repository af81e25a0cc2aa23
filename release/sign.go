package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Releases are signed with SSH keys: git and OpenSSH, which most machines have, verify both tags and files, offline and
// without a keyring. GPG needs a keyring and a web of trust, minisign signs no tags and is rarely installed, sigstore needs the
// internet and an account.

const (
	// signers is the path of the allowed-signers file in the repository, for ssh-keygen -Y verify and git's
	// gpg.ssh.allowedSignersFile. The owner commits it.
	signers = "release/allowed_signers"
	// signedBy is the principal in that file.
	signedBy = "holdfast-releases"

	// Namespaces: the signature of a file is not valid for a tag.
	ofFile = "file"
	ofTag  = "git"

	checksums = "SHA256SUMS"
	signature = checksums + ".sig"
)

var errNoKey = errors.New(`RELEASE_KEY is not set, and a release is signed:
    make release VERSION=v… RELEASE_KEY=~/.ssh/holdfast-releases
It names an SSH key of yours: the private half, or the public half (.pub) if ssh-agent has the private one. The
key is only ever read by ssh-keygen. CONTRIBUTING.md, "A release", says how to make one; make release-dry-run builds without
signing or tagging`)

// checkKey fails if a key cannot sign a release. To find out, it signs a text and verifies the signature.
func (r *repository) checkKey(ctx context.Context, key string) error {
	if key == "" {
		return errNoKey
	}
	if err := r.checkPlace(key); err != nil {
		return err
	}
	mark, err := fingerprint(ctx, key)
	if err != nil {
		return err
	}
	if _, err := os.Stat(r.signersFile()); err != nil {
		return fmt.Errorf(`%w: it says which keys sign releases. Commit it, with this line:
    %s namespaces="%s,%s" PUBLIC-HALF-OF-THE-KEY`, err, signedBy, ofTag, ofFile)
	}
	var wrong []error
	for _, namespace := range []string{ofFile, ofTag} {
		if _, err := r.sign(ctx, key, namespace, "can this key sign a release?"); err != nil {
			wrong = append(wrong, err)
		}
	}
	security, err := os.ReadFile(filepath.Join(r.dir, "SECURITY.md"))
	if err != nil {
		return err
	}
	if !strings.Contains(string(security), mark) {
		wrong = append(wrong, fmt.Errorf("SECURITY.md does not have the fingerprint of the key that signs, %s", mark))
	}
	return errors.Join(wrong...)
}

// checkPlace fails if a key is not a file, or is in the repository, where it could be published.
func (r *repository) checkPlace(key string) error {
	path, err := filepath.Abs(key)
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return fmt.Errorf("RELEASE_KEY: %w", err)
	}
	if err := regular(path); err != nil {
		return fmt.Errorf("RELEASE_KEY: %w", err)
	}
	top, err := filepath.EvalSymlinks(r.dir)
	if err != nil {
		return err
	}
	if below, err := filepath.Rel(top, path); err == nil && filepath.IsLocal(below) {
		return fmt.Errorf("RELEASE_KEY: %s is in the repository; keep keys elsewhere", key)
	}
	return nil
}

// fingerprint returns the fingerprint of a key, such as SHA256:….
func fingerprint(ctx context.Context, key string) (string, error) {
	out, err := output(ctx, "", nil, "", "ssh-keygen", "-l", "-f", key)
	if err != nil {
		return "", fmt.Errorf("RELEASE_KEY: %w", err)
	}
	fields := strings.Fields(out)
	if len(fields) < 2 {
		return "", fmt.Errorf("RELEASE_KEY: ssh-keygen says %q of %s", out, key)
	}
	return fields[1], nil
}

func (r *repository) signersFile() string { return filepath.Join(r.dir, filepath.FromSlash(signers)) }

// sign signs a text and verifies the signature. Only ssh-keygen reads the key; it asks for a passphrase, or for a touch of the
// token, at the terminal.
func (r *repository) sign(ctx context.Context, key, namespace, text string) (string, error) {
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", key) //nolint:gosec // a path of the user's
	cmd.Stdin, cmd.Stderr = strings.NewReader(text), os.Stderr
	var signed bytes.Buffer
	cmd.Stdout = &signed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ssh-keygen cannot sign with %s: %w", key, err)
	}
	if err := r.verifySignature(ctx, namespace, text, signed.String()); err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return signed.String(), nil
}

// verifySignature fails unless a key in the allowed-signers file has signed a text.
func (r *repository) verifySignature(ctx context.Context, namespace, text, signature string) (err error) {
	file, err := os.CreateTemp("", "holdfast-signature-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(signature)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = output(ctx, r.dir, nil, text, "ssh-keygen", "-Y", "verify", "-f", r.signersFile(), "-I", signedBy, "-n", namespace, "-s", file.Name())
	if err != nil {
		return fmt.Errorf("the signature is not by a key in %s, or the text has changed: %w", signers, err)
	}
	return nil
}

// signChecksums signs the checksums in a directory.
func (r *repository) signChecksums(ctx context.Context, dir, key string) error {
	text, err := os.ReadFile(filepath.Join(dir, checksums)) //nolint:gosec // in the directory that was asked for
	if err != nil {
		return err
	}
	signed, err := r.sign(ctx, key, ofFile, string(text))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, signature), []byte(signed))
}

// tag creates a signed tag of a commit for each published module, and returns their names. It creates all tags or none.
func (r *repository) tag(ctx context.Context, version, commit, key string) ([]string, error) {
	tagger, err := git(ctx, r.dir, "var", "GIT_COMMITTER_IDENT")
	if err != nil {
		return nil, err
	}
	var names []string
	var transaction strings.Builder
	for _, m := range r.published() {
		name := m.tag(version)
		text := tagHeader(name, commit) + strings.TrimSpace(tagger) + "\n\n" + m.path() + " " + version + "\n"
		signed, err := r.sign(ctx, key, ofTag, text)
		if err != nil {
			return nil, err
		}
		id, err := gitWith(ctx, r.dir, text+signed, "mktag")
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		fmt.Fprintf(&transaction, "create refs/tags/%s %s\n", name, strings.TrimSpace(id))
	}
	_, err = gitWith(ctx, r.dir, transaction.String(), "update-ref", "--stdin")
	return names, err
}

// tagHeader returns the beginning of a tag object, up to the name of the tagger.
func tagHeader(name, commit string) string {
	return "object " + commit + "\ntype commit\ntag " + name + "\ntagger "
}

// verifyTag fails unless a tag is signed, and its signed text names this tag and this commit. git verify-tag does not compare
// the name: it accepts the signed tag of an old release under the name of a new one.
func (r *repository) verifyTag(ctx context.Context, name, commit string) error {
	kind, err := git(ctx, r.dir, "cat-file", "-t", "refs/tags/"+name)
	if err != nil {
		return fmt.Errorf("there is no tag %s: %w", name, err)
	}
	if strings.TrimSpace(kind) != "tag" {
		return fmt.Errorf("the tag %s is not signed: it is only a name of a %s", name, strings.TrimSpace(kind))
	}
	object, err := git(ctx, r.dir, "cat-file", "tag", "refs/tags/"+name)
	if err != nil {
		return err
	}
	at := strings.LastIndex(object, "\n-----BEGIN SSH SIGNATURE-----\n") + 1
	if at == 0 {
		return fmt.Errorf("the tag %s has no signature of an SSH key", name)
	}
	if err := r.verifySignature(ctx, ofTag, object[:at], object[at:]); err != nil {
		return fmt.Errorf("the tag %s: %w", name, err)
	}
	if want := tagHeader(name, commit); !strings.HasPrefix(object, want) {
		says, _, _ := strings.Cut(object, "\ntagger ")
		return fmt.Errorf("the tag %s is of commit %s here, but its signed text says %q", name, commit, says)
	}
	return nil
}
