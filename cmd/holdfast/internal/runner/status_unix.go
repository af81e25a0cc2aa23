//go:build unix

package runner

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenStatus returns the open file descriptor that the status is to be written to. The command
// does not inherit it, unless it is standard output or standard error.
func OpenStatus(fd int) (*os.File, error) {
	var about unix.Stat_t
	if fd < 1 || unix.Fstat(fd, &about) != nil || !writable(fd, uint32(about.Mode)) { //nolint:unconvert // its type differs
		return nil, fmt.Errorf("--json-status %d is no file descriptor that is open for writing; a shell opens one with %d>FILE", fd, max(3, fd))
	}
	if fd > 2 {
		unix.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(fd), "status"), nil
}

// writable reports whether a descriptor is one for writing that somebody may have opened for us. Go's
// own, which are none of these kinds, have the same numbers.
func writable(fd int, mode uint32) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG, syscall.S_IFIFO, syscall.S_IFSOCK, syscall.S_IFCHR:
		return err == nil && flags&syscall.O_ACCMODE != syscall.O_RDONLY
	}
	return false
}
