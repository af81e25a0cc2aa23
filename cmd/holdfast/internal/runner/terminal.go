//go:build unix

package runner

import (
	"os"
	"strconv"
	"syscall"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, of which only the foreground process group may read. Without a controlling
// terminal its descriptor is -1, and every request fails. doc.go has the rules.
type terminal struct {
	fd     int
	before int         // the foreground group before the command's; 0 unless the command was given the terminal
	state  *term.State // its modes at that time
}

func controlling() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		fd = -1
	}
	return &terminal{fd: fd}
}

func (t *terminal) close() { _ = unix.Close(t.fd) } // nothing was written

// front returns the foreground group, 0 if there is none.
func (t *terminal) front() int {
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// available reports whether the foreground group is ours, or belongs to the run whose command we are.
func (t *terminal) available() bool {
	front := t.front()
	if front == unix.Getpgrp() {
		return true
	}
	runner, err := strconv.Atoi(os.Getenv(runnerVariable))
	if front == 0 || err != nil || !inGroupOf(runner) {
		return false
	}
	group, err := unix.Getpgid(runner)
	return err == nil && group == front
}

// save records the state that retake restores, and reports whether the terminal can be given away.
func (t *terminal) save() bool {
	if !t.available() {
		return false
	}
	state, err := term.GetState(uintptr(t.fd))
	if err != nil {
		return false
	}
	t.before, t.state = t.front(), state
	return true
}

// fromStart reports whether the command is to start in the foreground.
func (t *terminal) fromStart() bool {
	return term.IsTerminal(os.Stdin.Fd()) && term.IsTerminal(os.Stdout.Fd()) && t.save()
}

// give makes a group the foreground group, and reports whether it is.
func (t *terminal) give(to int) bool {
	if t.front() == to {
		return true
	}
	return t.save() && unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, to) == nil
}

// retake takes the terminal back from a group, unless another group has it by then. It returns the group that has the
// terminal again, or 0 if nothing was taken back. A command that was killed may have left modes that are of no use to the
// shell: restore resets them. A program of the group that gets the terminal may have been suspended because it
// wanted to read, so the group is continued.
func (t *terminal) retake(from int, restore bool) (group int) {
	if t.before == 0 || t.front() != from {
		return 0
	}
	group, t.before = t.before, 0
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // the terminal may have gone
	if restore {
		_ = term.Restore(uintptr(t.fd), t.state)
	}
	_ = syscall.Kill(-group, syscall.SIGCONT)
	return group
}
