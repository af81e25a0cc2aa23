//go:build unix

package runner

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// child is a command in a process group of its own.
type child struct {
	process    *os.Process
	foreground bool        // its group has the terminal
	terminal   *term.State // as it was before; nil unless foreground

	exited  chan struct{}      // closed when it has ended
	status  syscall.WaitStatus // how it ended; after reap, or after exited if reaped
	reaped  bool               // after exited: observe has collected it
	stopped chan struct{}      // capacity 1: it has been suspended
}

// start starts a command with our standard streams.
//
// In a group of its own it could not read from the terminal, so it becomes the
// terminal's foreground group if that is ours now and nobody shares it: a
// pipeline's other programs are in our group, and have our terminal only as long
// as we are in front. Then standard input or output is no terminal.
func start(path string, argv, environment []string) (*child, error) {
	c := &child{exited: make(chan struct{}), stopped: make(chan struct{}, 1)}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if stdin := os.Stdin.Fd(); inFront(stdin) && term.IsTerminal(os.Stdout.Fd()) {
		var err error
		if c.terminal, err = term.GetState(stdin); err == nil {
			c.foreground = true
			attributes.Foreground, attributes.Ctty = true, int(stdin)
		}
	}
	dieWithParent(attributes)
	var err error
	c.process, err = os.StartProcess(path, argv, &os.ProcAttr{
		Env: environment, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attributes,
	})
	if err != nil {
		return nil, err
	}
	if c.foreground {
		// Now in the background, we write to the terminal and take it back. Not
		// before the start: the command would inherit it.
		signal.Ignore(syscall.SIGTTOU)
	}
	go c.observe()
	return c, nil
}

// inFront reports whether fd is a terminal whose foreground group is ours.
func inFront(fd uintptr) bool {
	group, err := unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// signal sends a signal to the whole group. It reports whether nobody has refused it. That the
// group has ended is no refusal.
func (c *child) signal(s syscall.Signal) bool {
	err := syscall.Kill(-c.process.Pid, s)
	if err == nil { // somebody has got it
		return !c.outOfReach()
	}
	return errors.Is(err, syscall.ESRCH)
}

// foreign reports whether nobody in the group may be signalled by us, once it has begun.
func (c *child) foreign() bool { return errors.Is(syscall.Kill(-c.process.Pid, 0), syscall.EPERM) }

// changesUser reports whether a program may become another user than ours, and root may signal everybody.
func changesUser(path string) bool {
	info, err := os.Stat(path)
	if err != nil || os.Geteuid() == 0 {
		return false
	}
	about, _ := info.Sys().(*syscall.Stat_t) // every Unix has it
	return filepath.Base(path) == "sudo" || info.Mode()&os.ModeSetuid != 0 && int(about.Uid) != os.Geteuid()
}

// reap collects the command after it has ended, and gives back the terminal. If
// it was stopped, what is left of its group is killed, and awaited for a while.
func (c *child) reap(stopped bool, limit time.Duration) syscall.WaitStatus {
	if stopped {
		c.signal(syscall.SIGKILL)
	}
	for !c.reaped {
		// Not process.Wait, which would lose the status if it were interrupted.
		_, err := syscall.Wait4(c.process.Pid, &c.status, 0, nil)
		c.reaped = !errors.Is(err, syscall.EINTR)
	}
	if stopped {
		c.awaitGroup(limit)
	}
	if c.foreground {
		c.retakeTerminal(stopped || c.status.Signaled())
	}
	return c.status
}

// awaitGroup waits until nobody is left in the group, as far as can be seen: one
// whose new parent does not collect it stays visible.
func (c *child) awaitGroup(limit time.Duration) {
	end := time.Now().Add(limit)
	for time.Now().Before(end) {
		if errors.Is(syscall.Kill(-c.process.Pid, 0), syscall.ESRCH) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// retakeTerminal makes us the foreground group again. A command that was killed
// may have left the terminal in a state that is of no use to the shell.
func (c *child) retakeTerminal(restore bool) {
	stdin := os.Stdin.Fd()
	_ = unix.IoctlSetPointerInt(int(stdin), unix.TIOCSPGRP, unix.Getpgrp()) // the terminal may have gone
	if restore {
		_ = term.Restore(stdin, c.terminal)
	}
}
