package rights

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/test/kit"
)

// TestVulnSaysWhatItKnows has tools/vuln, which make vuln runs, meet what govulncheck can say: that there is nothing, that there is
// something, that it cannot look, and that it has failed.
func TestVulnSaysWhatItKnows(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		script string
		code   int
		says   string
	}{
		"nothing":     {"echo No vulnerabilities found.", 0, "vuln: none is known."},
		"found":       {"echo Vulnerability 1: GO-1; exit 3", 1, "Vulnerability 1: GO-1"},
		"unreachable": {`echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host' >&2; exit 1`, 2, "cannot be reached, so nothing is known"},
		"failed":      {"echo it does not compile >&2; exit 1", 2, "govulncheck failed with 1 in ."},
		"a copy":      {`test "$1" = -db=file:///copy`, 0, "vuln: none is known."},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			check := filepath.Join(t.TempDir(), "govulncheck")
			kit.OK(t, os.WriteFile(check, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
			cmd := exec.Command("../../tools/vuln", check, ".", "..")
			cmd.Env = append(os.Environ(), "GOVULNDB=")
			if what == "a copy" {
				cmd.Env = append(cmd.Env, "GOVULNDB=file:///copy")
			}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("exit code %d: %s", got, out)
			}
			if known := strings.Contains(string(out), "none is known"); known != (c.code == 0) {
				t.Errorf("exit code %d: %s", c.code, out)
			}
		})
	}
}
