package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/bench"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/completion"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/runner"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/rights"
)

// commandLine is a command line, cut at its first "--": what follows is nobody's but
// the command's that is to be run.
type commandLine struct {
	ours    []string
	dashes  bool
	command []string
}

func split(args []string) commandLine {
	if len(args) == 0 {
		args = []string{helpFlag}
	}
	at := slices.Index(args, "--")
	if at < 0 {
		return commandLine{ours: args}
	}
	return commandLine{ours: args[:at], dashes: true, command: args[at+1:]}
}

// named is the same line with the lock's name that stands behind its "--", as one must that begins with a "-":
// show -- -name, or run -- -name -- command.
func (l commandLine) named() (named commandLine, ok bool) {
	if len(l.command) == 0 {
		return l, false
	}
	named.ours = append(slices.Clone(l.ours), "--", l.command[0])
	if len(l.command) == 1 {
		return named, true
	}
	named.dashes, named.command = true, l.command[2:]
	return named, l.command[1] == "--"
}

// parse reads a command line. It ends with a panic of [helped] if help was asked for.
func (l commandLine) parse(s streams) (*kong.Context, redisFlags, error) {
	var g grammar
	parser, err := newParser(&g, s)
	if err != nil {
		return nil, g.redisFlags, err
	}
	parsed, err := parser.Parse(l.ours)
	refused := refusal(err)
	switch {
	case refused != nil:
		isRun := selected(refused.Context) == runName
		if named, ok := l.named(); ok && named.dashes == isRun && (!isRun || missesName(refused)) {
			return named.parse(s)
		}
		return nil, g.redisFlags, l.explain(s)
	case err != nil:
		return nil, g.redisFlags, err
	case slices.Contains([]string{runName, aclName}, parsed.Selected().Name):
		return parsed, g.redisFlags, g.takeRest(parsed.Selected().Name, l)
	case l.dashes && len(l.command) > 0:
		if named, ok := l.named(); ok && !named.dashes && takesPattern(parsed) {
			return named.parse(s)
		}
		return nil, g.redisFlags, fmt.Errorf("unexpected argument %s; only holdfast run takes a command after --", l.command[0])
	}
	return parsed, g.redisFlags, nil
}

// takeRest gives a command what stands behind "--".
func (g *grammar) takeRest(command string, l commandLine) error {
	if command == runName {
		return g.Run.take(l)
	}
	g.ACL.Name = append(g.ACL.Name, l.command...)
	return nil
}

// refusal returns the error of a command line that kong refuses, nil if there is none, or another one: that the help cannot be
// written.
func refusal(err error) *kong.ParseError {
	var coded *exit.Error
	var refused *kong.ParseError
	if errors.As(err, &coded) || !errors.As(err, &refused) {
		return nil
	}
	return refused
}

func newParser(g *grammar, s streams) (*kong.Kong, error) {
	parser, err := kong.New(g,
		kong.Name("holdfast"), kong.Description(about), kong.Writers(s.stdout.Beneath(), s.stderr), // of a terminal kong finds the width
		kong.Vars{
			"forms": connect.Forms, "kinds": strings.Join(runner.Kinds(), ","), "shows": strings.Join(demo.Names(), ","),
			"benched": strings.Join(bench.Kinds(), ","), "shells": strings.Join(completion.Shells(), ","),
			"actions":  strings.Join([]string{loadScripts, checkScripts, listScripts}, ","),
			"doctored": strings.Join(rights.IDs(), ", "), "surveyed": joined(survey.Kinds()), "orders": joined(present.Orders()),
		},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(help),
		kong.ExplicitGroups([]kong.Group{{Key: "redis", Title: "Connecting to Redis:"}}),
		kong.Exit(func(int) { panic(helped{}) }),
		kong.KindMapper(reflect.String, kong.MapperFunc(asItStands)), kong.NamedMapper("name", kong.MapperFunc(lockName)),
	)
	if err != nil {
		return nil, err
	}
	for _, command := range parser.Model.Children {
		command.Detail = texts[command.Name].detail
	}
	parser.Model.HelpFlag.Help = "Print the help of the tool, or of the command."
	return parser, nil
}

// asItStands takes a string over byte by byte. kong's own mapper goes by way of JSON, which puts U+FFFD for what is
// not UTF-8: the lock would be another one.
func asItStands(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	target.SetString(token.String())
	return nil
}

// lockName refuses the empty name, which an unset variable of a shell leaves: wait would say that nobody has it.
func lockName(ctx *kong.DecodeContext, target reflect.Value) error {
	if err := asItStands(ctx, target); err != nil {
		return err
	}
	if target.String() == "" {
		return errors.New("it is empty")
	}
	return nil
}

// joined are names with commas between.
func joined[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ",")
}

// selected is the name of the command that a parser has come to, if any.
func selected(of *kong.Context) string {
	if node := of.Selected(); node != nil {
		return node.Name
	}
	return ""
}

// takesPattern reports whether the command needs no name, and takes a pattern of names.
func takesPattern(of *kong.Context) bool {
	arguments := of.Selected().Positional
	return len(arguments) > 0 && arguments[0].Name == "pattern"
}

// missesName reports whether a lock's name is what was missing.
func missesName(err *kong.ParseError) bool {
	return selected(err.Context) == runName && strings.HasPrefix(err.Error(), `expected "<name>`)
}

// valueMissing is how kong says that a flag stands last and wants a value.
var valueMissing = regexp.MustCompile(`expected .*but got "EOL" \(<EOL>\)`)

// argumentMissing is how kong says that an argument is.
var argumentMissing = regexp.MustCompile(`^expected "(<[a-z]+>)"`)

// noCommand is what kong says of an argument where a command should be.
var noCommand = regexp.MustCompile(`(?s)^unexpected argument (.*?)(?:, did you mean (.*)\?)?$`)

// noTime is what kong says of a flag whose value is no time, and of one without a unit.
var noTime = regexp.MustCompile(`expected duration but got (".*"): time: (missing unit)?.*$`)

// negativeTime is what kong says of a flag whose value is a negative time.
var negativeTime = regexp.MustCompile(`^(--[a-z-]+): expected duration value but got "-[0-9.]`)

// explain says what is wrong, and where to read on. It goes by what kong says of the line without its credentials.
func (l commandLine) explain(s streams) error {
	parser, err := newParser(new(grammar), s)
	if err != nil {
		return err
	}
	_, err = parser.Parse(blank(l.ours))
	refused, ok := err.(*kong.ParseError) //nolint:errorlint // kong's own
	// What is wrong may be in the blanked values alone.
	if !ok {
		return fmt.Errorf("a value cannot be used; see holdfast %s", helpFlag)
	}
	command, said := selected(refused.Context), refused.Error()
	switch {
	case missesName(refused):
		return errors.New("the name of the lock is missing: " + texts[runName].usage)
	case command == "" && strings.HasPrefix(said, "expected one of "):
		return errors.New("a command is missing, such as holdfast ls; see holdfast --help")
	case command == "" && noCommand.MatchString(said):
		return unknownCommand(said)
	case negativeTime.MatchString(said):
		return fmt.Errorf("%s must not be negative", negativeTime.FindStringSubmatch(said)[1])
	case argumentMissing.MatchString(said):
		return fmt.Errorf("%s is missing: %s", argumentMissing.FindStringSubmatch(said)[1], texts[command].usage)
	case command != "":
		command += " "
	}
	text := valueMissing.ReplaceAllString(strings.TrimSuffix(said, "?"), "its value is missing")
	if time := noTime.FindStringSubmatch(text); time != nil {
		wrong := " is no time"
		if time[2] != "" {
			wrong = " has no unit"
		}
		text = strings.TrimSuffix(text, time[0]) + time[1] + wrong + " (a time is written as 500ms, 10s or 1h30m)"
	}
	return fmt.Errorf("%s; see holdfast %s--help", text, command)
}

// unknownCommand is the error for a command that is not there, of which kong has said so.
func unknownCommand(said string) error {
	found := noCommand.FindStringSubmatch(said)
	if found[2] != "" {
		return fmt.Errorf("there is no command %s; did you mean %s? See holdfast --help", found[1], found[2])
	}
	return fmt.Errorf("there is no command %s; see holdfast --help", found[1])
}
