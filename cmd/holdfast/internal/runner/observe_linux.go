package runner

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

const stoppedByASignal = 5 // CLD_STOPPED

// dieWithParent makes the kernel kill the command if we are killed ourselves:
// nobody would stop it at the end of the lock.
func dieWithParent(attributes *syscall.SysProcAttr) {
	attributes.Pdeathsig = syscall.SIGKILL
}

// observe tells of changes until the command has ended. It does not reap it: as
// long as the zombie is there, the number of its group is nobody else's.
func (c *child) observe() {
	defer close(c.exited)
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.process.Pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || info.Code != stoppedByASignal:
			return
		}
		// Take the news, so that it comes but once.
		if unix.Waitid(unix.P_PID, c.process.Pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) != nil {
			continue
		}
		select {
		case c.stopped <- struct{}{}:
		default:
		}
	}
}
