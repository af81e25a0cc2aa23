package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run is called by kong.
func (versionCommand) Run(s streams) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(s.stdout, "holdfast %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
