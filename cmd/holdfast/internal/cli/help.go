package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// What more than one place speaks of.
const (
	runName     = "run"
	helpName    = "help"
	versionName = "version"
	unlockName  = "unlock"
	helpFlag    = "--help"
	redisFlag   = "redis"
)

// usages are how the commands are written. That of the tool itself is under "".
var usages = map[string]string{
	"":          "holdfast <command> [flags]",
	"demo":      "holdfast demo [flags] [<kind>]",
	runName:     "holdfast run [flags] <name> -- <command> [<arg> ...]",
	"ls":        "holdfast ls [flags] [<pattern>]",
	"show":      "holdfast show [flags] <name>",
	"watch":     "holdfast watch [flags] [<pattern>]",
	"wait":      "holdfast wait [flags] <name>",
	unlockName:  "holdfast unlock --force [flags] <name>",
	"dashboard": "holdfast dashboard [flags] [<pattern>]",
	"bench":     "holdfast bench [flags]",
	"doctor":    "holdfast doctor [flags]",
	helpName:    "holdfast help [<command>]",
	versionName: "holdfast version",

	"completion": "holdfast completion <shell>",
	"man":        "holdfast man",
}

// about is the tool in a sentence.
const about = "Runs commands under locks that live in Redis, and shows who holds such locks, and what they do."

// redisHelp is what the help of a command says of the Redis. That of the tool has all flags for it.
const redisHelp = "The Redis to use, such as redis://host:port. holdfast --help has more forms, and the flags for passwords, sentinels and TLS."

// withoutRedis are the commands that need none.
var withoutRedis = []string{helpName, versionName, "completion", "man"}

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

// printHelp is kong's help with our usage lines: kong puts the flags last, where the command
// to run stands.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	command := selected(ctx)
	usage, found := usages[command]
	if !found {
		return kong.DefaultHelpPrinter(options, ctx)
	}
	if _, err := fmt.Fprintln(ctx.Stdout, "Usage:", usage); err != nil {
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
	switch {
	case err != nil && noCommand.MatchString(err.Error()):
		return &exit.Error{Code: exit.Usage, Err: unknownCommand(err.Error())}
	case err != nil:
		return exit.Because(exit.Usage, "%w; see holdfast --help", err)
	}
	return nil
}
