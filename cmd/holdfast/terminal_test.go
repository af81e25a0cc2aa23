//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// console is a terminal with a command on it.
type console struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File

	lockedText // what is on the screen
}

func onTerminal(t *testing.T, cmd *exec.Cmd) *console {
	t.Helper()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, cmd: cmd, tty: tty}
	var reader sync.WaitGroup
	reader.Go(func() { _, _ = io.Copy(&c.lockedText, tty) }) // ends with an error when the terminal goes
	t.Cleanup(func() {
		if t.Failed() { // somebody may still have the terminal
			t.Logf("on the screen:\n%s", c.String())
			if group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP); err == nil && group > 0 {
				_ = syscall.Kill(-group, syscall.SIGKILL)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // again, perhaps
		}
		reader.Wait()
		_ = tty.Close()
	})
	return c
}

func (c *console) shows(text string) {
	c.t.Helper()
	eventually(c.t, text+" on the screen", func() bool { return strings.Contains(c.String(), text) })
}

func (c *console) types(text string) {
	c.t.Helper()
	if _, err := c.tty.WriteString(text); err != nil {
		c.t.Fatal(err)
	}
}

// TestTerminal runs a command that reads from the terminal, is told to suspend
// itself, and is interrupted. A shell around it goes on to use the terminal.
func TestTerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cmd := inShell(t, server, `
		holdfast run job -- sh -c 'echo ask; read answer; echo "got $answer"; trap "echo interrupted; exit 3" INT; while :; do sleep 0.01; done'
		echo "code $?"; read answer; echo "shell got $answer"`)
	c := onTerminal(t, cmd)
	c.shows("ask")
	c.types("yes\n")
	c.shows("got yes")
	c.types("\x1a") // Ctrl-Z
	c.shows("cannot be suspended")
	c.types("\x03") // Ctrl-C
	c.shows("interrupted")
	c.shows("code 3")
	c.types("more\n")
	c.shows("shell got more")
	if got := code(t, cmd.Wait()); got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// asks is a command that asks for a name on the terminal.
const asks = `sh -c 'printf "name? " >&2; read a; echo "got $a"'`

// TestTerminalAnswers has commands ask on a terminal that other programs share with them. The answer arrives, and a
// shell around them goes on to use the terminal.
func TestTerminalAnswers(t *testing.T) {
	t.Parallel()
	for what, line := range map[string]string{
		"output into a pipe":                 "holdfast run job -- " + asks + " | cat",
		"output and errors into a pipe":      "holdfast run job -- " + asks + " 2>&1 | cat",
		"output into a variable":             "x=$(holdfast run job -- " + asks + "); echo $x",
		"output into a file":                 "holdfast run job -- " + asks + " >$0/out; cat $0/out",
		"input from a file, /dev/tty":        "holdfast run job -- sh -c 'exec </dev/tty; " + `printf "name? " >/dev/tty; read a; echo "got $a"' </dev/null`,
		"input from a pipe, /dev/tty":        "echo | holdfast run job -- sh -c 'exec </dev/tty; " + `printf "name? " >/dev/tty; read a; echo "got $a"' | cat`,
		"modes of the terminal":              `holdfast run job -- sh -c 'stty -echo; printf "name? " >&2; read a; stty echo; echo "got $a"' | cat`,
		"SIGTTIN ignored, as in a $(…)":      "trap '' TTIN TTOU; holdfast run job -- " + asks + " | cat",
		"a run inside a run":                 "holdfast run --pass-redis outer -- holdfast run job -- " + asks + " | cat",
		"a run inside a run of its name":     "holdfast run --pass-redis job -- holdfast run job -- " + asks + " | cat",
		"after a command that cannot be run": "holdfast run job -- $0/program; holdfast run job -- " + asks,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			dir := t.TempDir()
			write(t, dir+"/program", "\x7fELF\x00")
			must(os.Chmod(dir+"/program", 0o700))
			c := onTerminal(t, inShell(t, server, line+`; read b; echo "shell got $b"`, dir))
			c.shows("name? ")
			c.types("bob\n")
			c.shows("got bob")
			c.types("more\n")
			c.shows("shell got more")
			if got := code(t, c.cmd.Wait()); got != 0 {
				t.Errorf("exit code %d", got)
			}
			wantNoKeys(t, server)
		})
	}
}

// TestTerminalInterrupted presses Ctrl-C while a command runs that has the terminal, asks for it, or does not use it. The
// shell's loop ends, as without holdfast.
func TestTerminalInterrupted(t *testing.T) {
	t.Parallel()
	for what, command := range map[string]string{
		"in front":          "sh -c 'echo ready $0; exec sleep 60' $i",
		"asks in a pipe":    "sh -c 'echo ready $0; read a' $i | cat",
		"does not ask":      "sh -c 'echo ready $0; exec sleep 60' $i | cat",
		"output elsewhere":  "sh -c 'echo ready $0 >&2; exec sleep 60' $i >/dev/null",
		"suspended":         "sh -c 'echo ready $0; kill -STOP $$' $i",
		"suspended, piped":  "sh -c 'echo ready $0; kill -STOP $$' $i | cat",
		"a run inside":      "holdfast run inner -- sh -c 'echo ready $0; exec sleep 60' $i",
		"a run inside asks": "holdfast run inner -- sh -c 'echo ready $0; read a' $i | cat",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			c := onTerminal(t, inShell(t, server, "for i in 1 2; do holdfast run --pass-redis job -- "+command+"; done; echo over"))
			c.shows("ready 1")
			if strings.HasPrefix(what, "suspended") {
				c.shows("has been suspended")
			}
			c.types("\x03")
			_ = c.cmd.Wait()
			eventually(t, "the lock is free", func() bool { return server.Cli(t, "EXISTS", "job", "inner") == "0" })
			if said := c.String(); strings.Contains(said, "ready 2") || strings.Contains(said, "over") {
				t.Errorf("the loop goes on: %q", said)
			}
		})
	}
}

// TestTerminalInBackground has a command in the background ask. It is said what it wants, and it has the terminal once the
// shell gives it to the job.
func TestTerminalInBackground(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := onTerminal(t, inShell(t, server, "set -m; holdfast run job -- "+asks+` & read go; fg; read b; echo "shell got $b"`))
	c.shows("it wants the terminal and")
	c.types("go\n")
	c.shows("holdfast run job") // fg says so
	c.types("bob\n")
	c.shows("got bob")
	c.types("more\n")
	c.shows("shell got more")
	if got := code(t, c.cmd.Wait()); got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// TestTerminalCtrlZ presses Ctrl-Z on a pipeline, of which each program goes on.
func TestTerminalCtrlZ(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	dir := t.TempDir()
	c := onTerminal(t, inShell(t, server, "set -m; holdfast run job -- sh -c 'echo ready; until test -e $0/end; do sleep 0.01; done; echo passed through the pipeline' $0 | cat", dir))
	c.shows("ready")
	c.types("\x1a")
	c.shows("cannot be suspended")
	write(t, dir+"/end", "")
	c.shows("passed through the pipeline")
	_ = c.cmd.Wait() // a shell that has seen cat stop, and does not look whether it goes on, has an exit code of its own
	wantNoKeys(t, server)
}

// inShell returns a command that runs a line by a shell, in which the tool is found by its name.
func inShell(t *testing.T, server *redistest.Server, line string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := holdfast(t, "redis://"+server.Addr())
	cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", line}, args...)
	return cmd
}

// TestDemoOnTerminal interrupts the live demo, and then looks whether the
// terminal is as it was.
func TestDemoOnTerminal(t *testing.T) {
	t.Parallel()
	cmd := holdfast(t, "")
	cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"), "TERM=xterm-256color", "NO_COLOR=")
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `stty -a >$0/before; holdfast demo; echo "code $?"; stty -a >$0/after; cmp $0/before $0/after && echo same`, t.TempDir()}
	c := onTerminal(t, cmd)
	c.shows("HOLDS")
	c.types("\x03")
	c.shows("code 130")
	c.shows("same")
	if got := code(t, cmd.Wait()); got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// TestSentencesOnTerminal breaks what is said on standard error between words.
func TestSentencesOnTerminal(t *testing.T) {
	t.Parallel()
	cmd := holdfast(t, "redis://"+redistest.Start(t).Addr(), "show", "nothing")
	c := onTerminal(t, cmd)
	c.shows("a lock that nobody holds leaves nothing in\r\nRedis\r\n")
	if got := code(t, cmd.Wait()); got != 66 {
		t.Errorf("exit code %d", got)
	}
}
