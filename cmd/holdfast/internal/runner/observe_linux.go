package runner

import (
	"errors"
	"slices"
	"syscall"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

const stoppedByASignal = 5 // CLD_STOPPED

// dieWithParent makes the kernel kill the command if we are killed ourselves:
// nobody would stop it at the end of the lock.
func dieWithParent(attributes *syscall.SysProcAttr) {
	attributes.Pdeathsig = syscall.SIGKILL
}

// inGroupOf reports whether we are in the process group of a command that a runner has started, and
// stops. Once that command has ended, nobody is.
func inGroupOf(runner int) bool {
	leader, err := procfs.NewProc(unix.Getpgrp())
	if err != nil {
		return false
	}
	stat, err := leader.Stat()
	return err == nil && stat.PPID == runner
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

// frozen reports whether somebody in the command's group has been suspended before
// it has become the program that it was started to be. Whoever has started it with
// vfork, as dash does, cannot be suspended until then, so observe does not hear of
// it, and nobody would wake either of them.
func (c *child) frozen() bool {
	processes, err := procfs.AllProcs()
	if err != nil {
		return false
	}
	const suspended, uninterruptible = "T", "D"
	states, starters := map[int]string{}, []int{}
	for _, p := range processes {
		stat, err := p.Stat()
		if err != nil || stat.PGRP != c.process.Pid {
			continue // it may have ended meanwhile
		}
		states[stat.PID] = stat.State
		if stat.State == suspended {
			starters = append(starters, stat.PPID)
		}
	}
	return slices.ContainsFunc(starters, func(pid int) bool { return states[pid] == uninterruptible })
}
