//go:build !unix

package runner

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
)

// Run needs process groups and signals.
func Run(cfg Config, _ driver.Driver) error {
	if err := cfg.check(); err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return unsupported()
}

// OpenStatus is for [Run].
func OpenStatus(int) (*os.File, error) { return nil, unsupported() }

func unsupported() error {
	return exit.Because(exit.Failed, "holdfast run needs a Unix system: this one has no process groups and signals to stop a command by")
}
