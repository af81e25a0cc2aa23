package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// nobody is a user who may not signal root.
const nobody = 65534

// TestStranger has commands that become root, so that a runner who is not may not signal them. They end with 7, or if they were cut
// off from a shell that has started them, with the test.
func TestStranger(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a program that becomes root")
	}
	programs := t.TempDir()
	must(os.Chmod(filepath.Dir(programs), 0o755))
	asroot := programs + "/asroot"
	copyOf(t, programs+"/holdfast", 0o755)
	copyOf(t, asroot, 0o755|os.ModeSetuid)
	must(os.Symlink("/usr/bin/env", programs+"/sudo"))
	const (
		early, late = "may run as another user; if it does, holdfast can neither stop it", "runs as another user, so holdfast can neither stop it"
		term, kill  = `"event":"refused","name":"job","kind":"mutex","signal":15,`, `"event":"refused","name":"job","kind":"mutex","signal":9,`
		sayTerm     = "signal 15 (terminated) was refused: the command, or a process that it has started, runs as another user; it works on"
		sayKill     = "signal 9 (killed) was refused"
		still       = "a process that it has started still runs"
	)
	lose := func(t *testing.T, _ *exec.Cmd, server *redistest.Server) { t.Helper(); server.Cli(t, "DEL", "job") }
	terminate := func(t *testing.T, cmd *exec.Cmd, _ *redistest.Server) { t.Helper(); send(t, cmd, syscall.SIGTERM) }
	for what, c := range map[string]struct {
		command string // the loop is behind it
		flags   string
		disturb func(*testing.T, *exec.Cmd, *redistest.Server)
		during  []string // is said while it works on
		code    int
		end     string
	}{
		"lost": {
			asroot, "", lose,
			[]string{early, term, sayTerm, `"event":"lost"`, `the lock "job" is lost: the server says`, kill, sayKill},
			76, "it is not held); the command ended with exit code 7",
		},
		"told":             {asroot, "", terminate, []string{early, term, sayTerm}, 7, ""},
		"too long":         {asroot, "--max-run 1s", nil, []string{early, term, sayTerm, kill}, 124, "ran for more than 1s, and could not be stopped; the command ended with exit code 7"},
		"hidden":           {"/usr/bin/env " + asroot, "", nil, []string{late}, 7, ""},
		"by name":          {programs + "/sudo", "", nil, []string{early}, 7, ""},
		"a part":           {"sh -c \"$@\"&wait sh " + asroot, "", terminate, []string{sayTerm}, 77, still},
		"a part, too long": {"sh -c \"$@\"&wait sh " + asroot, "--max-run 1s", nil, []string{sayTerm}, 77, still},
		"a part, lost":     {"sh -c \"$@\"&wait sh " + asroot, "", lose, []string{sayTerm}, 77, "it is not held); the command ended by signal 15 (terminated), but " + still},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			dir := t.TempDir()
			must(os.Chmod(filepath.Dir(dir), 0o755))
			must(os.Chmod(dir, 0o777))
			t.Cleanup(func() { write(t, dir+"/end", "") })
			args := append([]string{"run", "--json-status", "1", "--lease", "6s", "--grace", "500ms"}, strings.Fields(c.flags)...)
			args = append(append(args, "job", "--"), strings.Fields(c.command)...)
			args = append(args, "sh", "-c", "echo >$0/ready; until test -e $0/end || test ! -e $0; do sleep 0.05; done; exit 7", dir)
			cmd := holdfast(t, "redis://"+server.Addr(), args...)
			cmd.Path, cmd.Dir = programs+"/holdfast", "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			out := &lockedText{}
			cmd.Stdout, cmd.Stderr = out, out
			must(cmd.Start())
			eventually(t, "the command runs", func() bool { return exists(dir + "/ready") })
			if c.disturb != nil {
				c.disturb(t, cmd, server)
			}
			for _, text := range c.during {
				eventually(t, "it says "+text, func() bool { return strings.Contains(out.String(), text) })
			}
			if c.code != 77 {
				write(t, dir+"/end", "")
			}
			got, said := code(t, cmd.Wait()), out.String()
			if got != c.code || !strings.Contains(said, c.end) || strings.Contains(said, "was stopped because") {
				t.Errorf("exit code %d, want %d: %s", got, c.code, said)
			}
			if early := strings.Index(said, early); early > strings.Index(said, `"event":"started"`) {
				t.Errorf("it says so after the start: %s", said)
			}
		})
	}
}

// copyOf copies this program.
func copyOf(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	self, err := os.Executable()
	must(err)
	from, err := os.Open(self)
	must(err)
	defer from.Close()
	to, err := os.Create(path)
	must(err)
	_, err = io.Copy(to, from)
	must(err)
	must(to.Close())
	must(os.Chmod(path, mode))
}
