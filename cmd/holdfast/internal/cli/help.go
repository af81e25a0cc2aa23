package cli

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/completion"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/manual"
)

// What more than one place speaks of.
const (
	runName     = "run"
	helpName    = "help"
	versionName = "version"
	unlockName  = "unlock"
	aclName     = "acl"
	helpFlag    = "--help"
	redisFlag   = "redis"
)

// texts are how the commands are written, and what their help says below that. Those of the tool itself are under "".
var texts = map[string]struct{ usage, detail string }{
	"":           {"holdfast <command> [flags]", ""},
	"demo":       {"holdfast demo [flags] [<kind>]", demoHelp()},
	runName:      {"holdfast run [flags] <name> -- <command> [<arg> ...]", runHelp},
	"ls":         {"holdfast ls [flags] [<pattern>]", lsHelp},
	"show":       {"holdfast show [flags] <name>", showHelp},
	"watch":      {"holdfast watch [flags] [<pattern>]", watchHelp},
	"wait":       {"holdfast wait [flags] <name>", waitHelp},
	unlockName:   {"holdfast unlock --force [flags] <name>", unlockHelp},
	"dashboard":  {"holdfast dashboard [flags] [<pattern>]", dashboardHelp},
	"bench":      {"holdfast bench [flags]", benchHelp},
	"doctor":     {"holdfast doctor [flags]", doctorHelp},
	"scripts":    {"holdfast scripts [flags] <action>", scriptsHelp},
	aclName:      {"holdfast acl --kind=KIND,... [flags] <name> ...", aclHelp},
	helpName:     {"holdfast help [<command>]", ""},
	versionName:  {"holdfast version", ""},
	"completion": {"holdfast completion <shell>", completionHelp},
	"man":        {"holdfast man", manHelp},
}

// about is the tool in a sentence.
const about = "Runs commands under locks that live in Redis, and shows who holds such locks, and what they do."

// redisHelp is what the help of a command says of the Redis. That of the tool has all flags for it.
const redisHelp = "The Redis to use, such as redis://host:port. holdfast --help has more forms, and the flags for passwords, sentinels and TLS."

// withoutRedis are the commands that need none.
var withoutRedis = []string{aclName, helpName, versionName, "completion", "man"}

// exitCodes are the last that the help of the tool says.
func exitCodes() string {
	var text strings.Builder
	text.WriteString("Exit codes:\n")
	for _, row := range exit.Table {
		fmt.Fprintf(&text, "  %-6s  %s\n", row.Code, row.Means)
	}
	text.WriteString("\nBut for these, holdfast run exits as the command that it runs.\n")
	text.WriteString("\nThe pages under docs/ are at https://github.com/holdfast-go/holdfast/tree/main/docs.\n")
	return text.String()
}

// help prints the help of the tool or of a command.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := printHelp(options, ctx); err != nil {
		return unwritten(err)
	}
	return nil
}

// printHelp is kong's help with our usage lines: kong puts the flags last, where the command
// to run stands.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	command := selected(ctx)
	text, found := texts[command]
	if !found {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	if _, err := fmt.Fprintln(ctx.Stdout, "Usage:", text.usage); err != nil {
		return err
	}
	options.NoAppSummary, options.FlagsLast = true, true
	if command == "" {
		if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
			return err
		}
		_, err := fmt.Fprint(ctx.Stdout, "\n"+exitCodes())
		return err
	}
	for _, flag := range ctx.Model.Flags {
		switch {
		case flag.Group == nil:
		case slices.Contains(withoutRedis, command) || flag.Name != redisFlag:
			flag.Hidden = true
		default:
			flag.Help = redisHelp
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

type helpCommand struct {
	Command string `arg:"" optional:"" help:"The command."`
}

// Run is called by kong. It ends with a panic of [helped].
func (c *helpCommand) Run(ctx *kong.Context) error {
	args := []string{helpFlag}
	if c.Command != "" {
		args = []string{c.Command, helpFlag}
	}
	_, err := ctx.Parse(blank(args))
	var coded *exit.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case err != nil && noCommand.MatchString(err.Error()):
		return &exit.Error{Code: exit.Usage, Err: unknownCommand(err.Error())}
	case err != nil:
		return exit.Because(exit.Usage, "%w; see holdfast --help", err)
	}
	return nil
}

type completionCommand struct {
	Shell string `arg:"" enum:"${shells}" help:"The shell: ${shells}."`
}

const completionHelp = `For the shell that reads it:
  source <(holdfast completion bash)
  source <(holdfast completion zsh)
  holdfast completion fish | source

For every shell from now on:
  holdfast completion bash >~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh >"${fpath[1]}/_holdfast"
  holdfast completion fish >~/.config/fish/completions/holdfast.fish`

// Run is called by kong.
func (c *completionCommand) Run(s streams) error {
	parser, err := newParser(new(grammar), s)
	if err != nil {
		return err
	}
	return completion.Write(s.stdout, c.Shell, parser.Model)
}

type manCommand struct{}

const manHelp = `To read it, and to have it where man looks:
  holdfast man | man -l -
  holdfast man >/usr/local/share/man/man1/holdfast.1`

// Run is called by kong.
func (*manCommand) Run(s streams) error {
	parser, err := newParser(new(grammar), s)
	if err != nil {
		return err
	}
	usages := map[string]string{}
	for name, text := range texts {
		usages[name] = text.usage
	}
	page := manual.Page{
		Version: number(buildInfo(), release), About: about, Usages: usages,
		Variables: map[string]string{
			passwordVariable:         "The password, if --password-file is not given.",
			sentinelPasswordVariable: "The password for the sentinels, if --sentinel-password-file is not given.",
		},
	}
	return page.Write(s.stdout, parser.Model)
}

// What the linker sets (-X) where the go command does not know it. A module that was downloaded
// knows its version, but no commit; a directory that is not a repository knows neither.
var release, commit, date string

type versionFlag bool

// BeforeReset is called by kong. It ends with a panic of [helped].
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if _, err := fmt.Fprintln(app.Stdout, version()); err != nil {
		return unwritten(err)
	}
	app.Exit(exit.OK)
	return nil
}

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

func version() string { return describe(buildInfo(), release, commit, date) }

// number is the version alone.
func number(info *debug.BuildInfo, release string) string {
	return cmp.Or(release, info.Main.Version, "(devel)")
}

// describe says of what a program was built, in one line: the commit and its date, where they
// are known.
func describe(info *debug.BuildInfo, release, commit, date string) string {
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	if commit == "" {
		commit, date = settings["vcs.revision"], settings["vcs.time"]
		if commit != "" && settings["vcs.modified"] == "true" {
			commit += " with changes"
		}
	}
	text := "holdfast " + number(info, release)
	if commit != "" {
		text += ", commit " + commit
	}
	if date != "" {
		text += ", date " + date
	}
	return fmt.Sprintf("%s, %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
