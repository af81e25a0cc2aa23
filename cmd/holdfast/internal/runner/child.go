//go:build unix

package runner

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// child is a command in a process group of its own.
type child struct {
	process  *os.Process
	terminal *terminal

	exited  chan struct{}       // closed when it has ended
	status  syscall.WaitStatus  // how it ended; after reap, or after exited if reaped
	reaped  bool                // after exited: observe has collected it
	stopped chan syscall.Signal // capacity 1: the signal that has suspended it

	interrupted bool // after reap: Ctrl-C has ended it
}

// start starts a command with our standard streams, in the terminal's foreground if it is to be there from the start.
func start(path string, argv, environment []string) (*child, error) {
	c := &child{terminal: controlling(), exited: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if c.terminal.fromStart() {
		attributes.Foreground, attributes.Ctty = true, c.terminal.fd
	}
	dieWithParent(attributes)
	// In $(…) a shell starts programs with these signals ignored. A program that ignores them gets an error from the terminal,
	// instead of being suspended until it has the terminal. For a signal that we catch, the command starts with the default action.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU, syscall.SIGTTIN)
	var err error
	c.process, err = os.StartProcess(path, argv, &os.ProcAttr{
		Env: environment, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: attributes,
	})
	// While the command is in front, we write to the terminal from the background and take it back, and another
	// program of our group may read from it. Not before the start: the command would inherit it.
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN)
	if err != nil {
		c.terminal.retake(c.terminal.front(), false) // from a process that did not become the command
		c.terminal.close()
		signal.Reset(syscall.SIGTTOU, syscall.SIGTTIN)
		return nil, err
	}
	go c.observe()
	return c, nil
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

// goOn continues the whole group.
func (c *child) goOn() { _ = syscall.Kill(-c.process.Pid, syscall.SIGCONT) }

// foreground reports whether the group has the terminal.
func (c *child) foreground() bool { return c.terminal.front() == c.process.Pid }

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
	taken := c.terminal.retake(c.process.Pid, stopped || c.status.Signaled())
	if c.status.Signaled() && c.status.Signal() == syscall.SIGINT && c.terminal.available() {
		c.interrupted = true
		if taken != 0 { // without us Ctrl-C would have reached that group
			_ = syscall.Kill(-taken, syscall.SIGINT)
		}
	}
	c.terminal.close()
	return c.status
}

// tellStopped notes by which signal the command has been suspended last. Only observe calls it.
func (c *child) tellStopped(by syscall.Signal) {
	select {
	case <-c.stopped:
	default:
	}
	c.stopped <- by
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
