//go:build !linux

package redistest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux can tie a child's life to its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }

// suspended reports whether the process no longer runs because of SIGSTOP.
func suspended(pid int) (bool, error) {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return strings.HasPrefix(strings.TrimSpace(string(out)), "T"), err
}
