//go:build !unix

package redistest

import (
	"os"
	"syscall"
)

// Redis does not run here. These let the package compile; sending them fails.
var (
	sigStop os.Signal = syscall.Signal(-1)
	sigCont os.Signal = syscall.Signal(-1)
)
