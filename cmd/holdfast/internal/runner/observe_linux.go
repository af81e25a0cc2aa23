package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unsafe"

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
	return err == nil && stat.PPID == runner && stat.State != ended
}

// proveRunner returns an [unprovenError] unless a process is a run of a lock of this name, and stops our group when it loses that.
func proveRunner(runner int, name string) error {
	process, err := procfs.NewProc(runner)
	if err != nil {
		return errNoRun
	}
	line, err := process.CmdLine()
	switch {
	case err != nil || !isRunOf(line, name) || !isOurProgram(process, line):
		return errNoRun
	case !inGroupOf(runner):
		return errLeftGroup
	}
	return nil
}

// isOurProgram reports whether a process executes a program of our name, whatever its command line says: a script may be run with anything behind its
// name. Of another user's process only the command line is to be seen.
func isOurProgram(process procfs.Proc, line []string) bool {
	name := func(path string) string { return filepath.Base(strings.TrimSuffix(path, " (deleted)")) } // as after an update
	ours, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return false
	}
	program, err := process.Executable()
	if errors.Is(err, fs.ErrPermission) {
		program, err = line[0], nil
	}
	return err == nil && name(program) == name(ours)
}

// ended is the state of a process that has ended and was not collected yet.
const ended = "Z"

// changed is the kernel's siginfo_t for a child that has changed its state, of which x/sys hides the half.
type changed struct {
	unix.Siginfo
}

// signal is the one by which the child was suspended: si_status, behind si_pid and si_uid, which begin at a multiple
// of the size of a pointer.
func (c *changed) signal() syscall.Signal {
	const header = (3*4 + unsafe.Sizeof(uintptr(0)) - 1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
	return syscall.Signal(*(*int32)(unsafe.Add(unsafe.Pointer(c), header+2*4))) //nolint:gosec // within siginfo_t, which has 128 bytes
}

// observe tells of changes until the command has ended. It does not reap it: as
// long as the zombie is there, the number of its group is nobody else's.
func (c *child) observe() {
	defer close(c.exited)
	for {
		var info changed
		err := unix.Waitid(unix.P_PID, c.process.Pid, &info.Siginfo, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || info.Code != stoppedByASignal:
			return
		}
		// Take the news, so that it comes but once.
		if unix.Waitid(unix.P_PID, c.process.Pid, &info.Siginfo, unix.WSTOPPED|unix.WNOHANG, nil) != nil || info.Code != stoppedByASignal {
			continue
		}
		c.tellStopped(info.signal())
	}
}

// frozen reports whether somebody in the command's group has been suspended before
// it has become the program that it was started to be. Whoever has started it with
// vfork, as dash does, cannot be suspended until then, so observe does not hear of
// it, and nobody would wake either of them.
func (c *child) frozen() bool {
	const suspended, uninterruptible = "T", "D"
	states, starters := map[int]string{}, []int{}
	for _, stat := range c.group() {
		states[stat.PID] = stat.State
		if stat.State == suspended {
			starters = append(starters, stat.PPID)
		}
	}
	return slices.ContainsFunc(starters, func(pid int) bool { return states[pid] == uninterruptible })
}

// outOfReach reports whether somebody in the command's group runs as another user, so that we may not
// signal him. A signal to a group succeeds if one of it gets it.
func (c *child) outOfReach() bool {
	return slices.ContainsFunc(c.group(), func(stat procfs.ProcStat) bool {
		return stat.State != ended && errors.Is(syscall.Kill(stat.PID, 0), syscall.EPERM)
	})
}

// group is the command's process group.
func (c *child) group() (all []procfs.ProcStat) {
	processes, _ := procfs.AllProcs() // without /proc nobody is seen
	for _, p := range processes {
		if stat, err := p.Stat(); err == nil && stat.PGRP == c.process.Pid { // it may have ended meanwhile
			all = append(all, stat)
		}
	}
	return all
}
