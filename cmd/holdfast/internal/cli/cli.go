package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/bench"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/runner"
)

const description = `Runs commands under locks that live in Redis, and shows what such locks do.

Exit codes: 64 bad usage, 65 the name is another kind of object, 69 Redis not reachable or not allowed, 75 lock not acquired in time, ` +
	`76 lock lost while the command ran, 124 command stopped by --max-run, 126 and 127 command that cannot be run ` +
	`or found, 128+n end by signal n; otherwise the command's own.`

// grammar is what can be written on the command line.
type grammar struct {
	redisFlags

	Demo    demoCommand    `cmd:"" help:"Show in 20 seconds what the locks do, one kind at a time. Without --redis it brings its own server."`
	Run     runCommand     `cmd:"" help:"Run a command while holding a lock."`
	Bench   benchCommand   `cmd:"" help:"Measure what locks do on a Redis of yours: how many pairs, how long the waits, how even."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Holder  holderCommand  `cmd:"" name:"demo-holder" hidden:"" help:"The process that the demo kills."`
}

// streams are where a command writes to.
type streams struct {
	stdout, stderr io.Writer
}

// say writes one sentence to standard error. Nobody could be told of a failure.
func (s streams) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.stderr, "holdfast: "+format+"\n", args...)
}

// helped stops kong where it would end the program: after it has shown the help.
type helped struct{}

// Main runs the tool and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) (code int) {
	connect.Quiet()
	s := streams{stdout, stderr}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(helped); !ok {
				panic(r)
			}
		}
	}()
	var g grammar
	parser := kong.Must(&g,
		kong.Name("holdfast"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Vars{
			"forms": connect.Forms, "kinds": strings.Join(runner.Kinds(), ","), "shows": strings.Join(demo.Names(), ","),
			"benched": strings.Join(bench.Kinds(), ","),
		},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(int) { panic(helped{}) }),
	)
	command, err := parser.Parse(args)
	if err != nil {
		s.sayf("%s; see holdfast --help", conceal(err.Error(), args))
		return exit.Usage
	}
	return s.exitCode(command.Run(s, g.redisFlags))
}

// exitCode says what there is to say about an error, and returns its exit code.
func (s streams) exitCode(err error) int {
	if err == nil {
		return exit.OK
	}
	var e *exit.Error
	if !errors.As(err, &e) {
		s.sayf("%v", err)
		return exit.Failed
	}
	if e.Err != nil {
		s.sayf("%v", e.Err)
	}
	return e.Code
}

// conceal takes arguments that may hold a credential out of a text: a URL that
// is put in the wrong place must not end up in a log.
func conceal(text string, args []string) string {
	for _, arg := range args {
		_, value, assigned := strings.Cut(arg, "=")
		if !assigned {
			value = arg
		}
		if !strings.Contains(arg, "@") && !strings.Contains(arg, "://") {
			continue
		}
		for _, secret := range []string{strconv.Quote(arg), arg, strconv.Quote(value), value} {
			if len(secret) > 2 {
				text = strings.ReplaceAll(text, secret, "(not shown)")
			}
		}
	}
	return text
}
