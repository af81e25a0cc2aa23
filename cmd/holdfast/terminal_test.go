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
	cmd := holdfast(t, "redis://"+server.Addr())
	cmd.Env = append(cmd.Env, "PATH="+toolDir(t)+":"+os.Getenv("PATH"))
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `
		holdfast run job -- sh -c 'echo ask; read answer; echo "got $answer"; trap "echo interrupted; exit 3" INT; while :; do sleep 0.01; done'
		echo "code $?"; read answer; echo "shell got $answer"`}
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
