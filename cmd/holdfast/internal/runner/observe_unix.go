//go:build unix && !linux

package runner

import (
	"errors"
	"syscall"
)

// dieWithParent has no counterpart here.
func dieWithParent(*syscall.SysProcAttr) {}

// inGroupOf is not known here.
func inGroupOf(int) bool { return true }

// proveRunner reports whether a runner lives: more is not known here.
func proveRunner(runner int, _ string) error {
	if err := syscall.Kill(runner, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return errNoRun
	}
	return nil
}

// observe notes changes until the command has ended, and collects it.
func (c *child) observe() {
	defer close(c.exited)
	for {
		_, err := syscall.Wait4(c.process.Pid, &c.status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err == nil && c.status.Stopped():
			c.tellStopped(c.status.StopSignal())
		default:
			c.reaped = true
			return
		}
	}
}

// frozen goes unnoticed here.
func (c *child) frozen() bool { return false }

// outOfReach is known here only of the whole group.
func (c *child) outOfReach() bool { return c.foreign() }
