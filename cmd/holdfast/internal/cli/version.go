package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// What the linker sets (-X) where the go command does not know it. A module that was downloaded
// knows its version, but no commit; a directory that is not a repository knows neither.
var release, commit, date string

type versionCommand struct{}

// Run is called by kong.
func (versionCommand) Run(s streams) error {
	_, err := fmt.Fprintln(s.stdout, version())
	return err
}

func buildInfo() *debug.BuildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return info
}

func version() string { return build{release, commit, date}.describe(buildInfo()) }

// number is the version alone.
func number() string { return build{release: release}.number(buildInfo()) }

// build is what the linker has set.
type build struct{ release, commit, date string }

// number is the version of a program.
func (b build) number(info *debug.BuildInfo) string {
	switch {
	case b.release != "":
		return b.release
	case info.Main.Version != "":
		return info.Main.Version
	}
	return "(devel)"
}

// describe says of what a program was built, in one line: the commit and its date, where they
// are known.
func (b build) describe(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	commit, date := b.commit, b.date
	if commit == "" {
		commit, date = settings["vcs.revision"], settings["vcs.time"]
		if commit != "" && settings["vcs.modified"] == "true" {
			commit += " with changes"
		}
	}
	text := "holdfast " + b.number(info)
	if commit != "" {
		text += ", commit " + commit
	}
	if date != "" {
		text += ", date " + date
	}
	return fmt.Sprintf("%s, %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
