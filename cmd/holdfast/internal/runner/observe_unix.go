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

// observe collects the command when it has ended. That it is suspended goes
// unnoticed here.
func (c *child) observe() {
	defer close(c.exited)
	for !c.reaped {
		_, err := syscall.Wait4(c.process.Pid, &c.status, 0, nil)
		c.reaped = !errors.Is(err, syscall.EINTR)
	}
}

// frozen goes unnoticed here, too.
func (c *child) frozen() bool { return false }

// outOfReach is known here only of the whole group.
func (c *child) outOfReach() bool { return c.foreign() }
