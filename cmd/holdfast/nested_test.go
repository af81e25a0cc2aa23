//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestNestedStopped has a command, and what it has started, run inside two runs of one name. They are
// stopped by a signal to the outer run, by the loss of its lock, and at the end of its time.
func TestNestedStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flag string
		end  func(t *testing.T, pid int, server *redistest.Server)
		code int
	}{
		"signal": {"--verbose", func(t *testing.T, pid int, _ *redistest.Server) {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}, 143},
		"lost":  {"--grace=300ms", func(t *testing.T, _ int, server *redistest.Server) { server.Cli(t, "DEL", "job") }, 76},
		"limit": {"--max-run=5s", func(*testing.T, int, *redistest.Server) {}, 124},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			dir := t.TempDir()
			file := func(name string) string { return filepath.Join(dir, name) }
			cmd := holdfast(t, "redis://"+server.Addr(), "run", "--pass-redis", "--lease=6s", c.flag, "job", "--", "holdfast", "run", "job", "--",
				"sh", "-c", pidTo("$0/inner")+"sh -c '"+pidTo("$0/started")+"exec sleep 60' $0; exit 9", dir)
			cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the command runs", func() bool { return exists(file("inner")) && exists(file("started")) })
			c.end(t, cmd.Process.Pid, server)
			if got := code(t, cmd.Wait()); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
			eventually(t, "nothing runs any more", func() bool { return dead(t, file("inner")) && dead(t, file("started")) })
		})
	}
}
