package rights

import (
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
		env    string
	}{
		"nothing":     {script: "echo No vulnerabilities found.", says: "vuln: none is known."},
		"found":       {script: "echo Vulnerability 1: GO-1; exit 3", code: 1, says: "Vulnerability 1: GO-1"},
		"unreachable": {script: `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host' >&2; exit 1`, code: 2, says: "cannot be reached, so nothing is known"},
		"failed":      {script: "echo it does not compile >&2; exit 1", code: 2, says: "govulncheck failed with 1 in ."},
		"a copy":      {script: `test "$1" = -db=file:///copy`, says: "vuln: none is known.", env: "file:///copy"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			check := filepath.Join(t.TempDir(), "govulncheck")
			kit.OK(t, os.WriteFile(check, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700))
			cmd := exec.Command("../../tools/vuln", check, ".", "..")
			cmd.Env = append(os.Environ(), "GOVULNDB="+c.env)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
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
