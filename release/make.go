package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// make makes a release: it checks the tree, builds it into a new directory, signs the checksums, verifies the
// directory and tags the commit.
func (r *repository) make(ctx context.Context, version, dir, key string, targets []target) error {
	if err := r.check(ctx, version, key); err != nil {
		return err
	}
	commit, date, err := r.clean(ctx)
	if err != nil {
		return err
	}
	if err := r.build(ctx, version, dir, targets); err != nil {
		return err
	}
	if after, _, err := r.clean(ctx); err != nil || after != commit {
		return errors.Join(fmt.Errorf("commit %s was checked, and the tree has changed since", commit), err)
	}
	if err := r.signChecksums(ctx, dir, key); err != nil {
		return err
	}
	if _, err := r.verifyFiles(ctx, version, dir, date); err != nil {
		return err
	}
	names, err := r.tag(ctx, version, commit, key)
	if err != nil {
		return err
	}
	mark, err := fingerprint(ctx, key)
	if err != nil {
		return err
	}
	fmt.Printf(`signed %s with %s, as %s
tagged %s, each tag signed by that key
the signatures are verified; nothing is pushed. To publish, upload %s, and

    git push --atomic origin HEAD %s
`, filepath.Join(dir, checksums), mark, filepath.Join(dir, signature), strings.Join(names, " "), dir, strings.Join(names, " "))
	return nil
}
