package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCommand struct{}

// Run is called by kong.
func (versionCommand) Run(s streams) error {
	_, err := fmt.Fprintln(s.stdout, version())
	return err
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return describe(info)
}

// describe says of what a program was built, in one line.
func describe(info *debug.BuildInfo) string {
	number := info.Main.Version
	if number == "" {
		number = "(devel)"
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	commit, date := settings["vcs.revision"], settings["vcs.time"]
	if commit == "" { // go build has not looked, or this is no repository
		commit, date = "unknown", "unknown"
	}
	if settings["vcs.modified"] == "true" {
		commit += " with changes"
	}
	return fmt.Sprintf("holdfast %s, commit %s, date %s, %s %s/%s", number, commit, date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
