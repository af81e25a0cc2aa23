package redistest

import (
	"os"
	"os/exec"
	"testing"
)

// A Child is a program that a test runs beside its servers, such as a client in a process of its own.
type Child struct{ proc *process }

// StartChild starts a command. The test's cleanup kills it, and on Linux it also dies when the
// test binary itself is killed. The command's own Wait is not to be called.
func StartChild(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	proc, err := startCommand(cmd)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	c := &Child{proc: proc}
	t.Cleanup(c.Kill)
	return c
}

// Kill ends it at once, also if it is suspended, and returns when it is gone.
func (c *Child) Kill() { c.proc.kill() }

// Stop suspends it, and Cont lets it go on. Stop does not wait until it no longer runs.
func (c *Child) Stop() error { return c.Signal(sigStop) }

// Cont lets it go on.
func (c *Child) Cont() error { return c.Signal(sigCont) }

// Done is closed when it has ended. Then ExitCode is its exit code, or -1 if it was killed.
func (c *Child) Done() <-chan struct{} { return c.proc.done }

// ExitCode is valid once Done is closed.
func (c *Child) ExitCode() int { return c.proc.cmd.ProcessState.ExitCode() }

// Signal sends it a signal.
func (c *Child) Signal(s os.Signal) error { return c.proc.cmd.Process.Signal(s) }
