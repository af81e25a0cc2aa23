//go:build !unix

package runner

import (
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
)

// Run needs process groups and signals.
func Run(cfg Config, _ driver.Driver) error {
	if err := cfg.check(); err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	return exit.Because(exit.Failed, "commands can be run under a lock on Unix systems only")
}
