//go:build unix

package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExposed warns of a file that others may read, by whatever name, and of nothing else.
func TestExposed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := file + ".link"
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for mode, exposed := range map[os.FileMode]bool{0o400: false, 0o600: false, 0o622: false, 0o640: true, 0o604: true, 0o644: true, 0o777: true} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, link} {
			if got := Exposed(name, "token"); (got != "") != exposed || exposed && !strings.Contains(got, "the token file "+name) {
				t.Errorf("%v: %q", mode, got)
			}
		}
	}
	pipe := file + ".pipe"
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{pipe, "/dev/null", filepath.Dir(file), file + ".none"} {
		if got := Exposed(other, "token"); got != "" {
			t.Errorf("%s: %s", other, got)
		}
	}
}
