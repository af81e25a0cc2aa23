// Package cli is the command line: its grammar, its help and its exit codes. It
// hands the work on to the packages beside it.
package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/text"
	"github.com/holdfast-go/holdfast/internal/visible"
)

// grammar is what can be written on the command line.
type grammar struct {
	redisFlags

	ShowVersion versionFlag `name:"version" help:"Print the version."`

	Demo      demoCommand      `cmd:"" help:"Show in 20 seconds what the locks do, one kind at a time. Without a Redis URL it brings its own server."`
	Run       runCommand       `cmd:"" help:"Run a command while holding a lock."`
	Ls        lsCommand        `cmd:"" help:"List the locks in Redis: who holds them, for how long, how many wait."`
	Show      showCommand      `cmd:"" help:"Show one lock: who holds it, for how long, who waits."`
	Watch     watchCommand     `cmd:"" help:"Watch the locks on a terminal."`
	Wait      waitCommand      `cmd:"" help:"Wait until nobody holds a lock, or a latch is at zero, without taking it."`
	Unlock    unlockCommand    `cmd:"" help:"Take a lock away from whoever holds it."`
	Dashboard dashboardCommand `cmd:"" help:"Serve a page that shows the locks as they change, and what was seen of them."`
	Doctor    doctorCommand    `cmd:"" help:"Say what is wrong with a Redis for locks, and what to do about it."`
	Scripts   scriptsCommand   `cmd:"" help:"Load the scripts of the locks into Redis, for users who may not use EVAL."`
	ACL       aclCommand       `cmd:"" name:"acl" help:"Print the rights of a Redis user for some locks, as a line for redis-cli."`
	Bench     benchCommand     `cmd:"" help:"Measure what locks do on a Redis of yours: how many pairs, how long the waits, how even."`
	Help      helpCommand      `cmd:"" help:"Print this, or the help of a command."`

	Completion completionCommand `cmd:"" help:"Print what a shell needs to complete the command line of holdfast."`
	Man        manCommand        `cmd:"" help:"Print the manual page, in roff."`

	Version versionCommand `cmd:"" help:"Print the version, and the commit and date of the build."`
	Holder  holderCommand  `cmd:"" name:"demo-holder" hidden:"" help:"The process that the demo kills."`
}

// unwritten is the error of a command whose standard output cannot be written.
func unwritten(err error) error {
	return exit.Because(exit.Failed, "standard output cannot be written: %w", err)
}

// streams are where a command writes to.
type streams struct {
	stdout, stderr *printer.Printer
	words          []string // the arguments and the environment, which may have URLs with a password among them
}

// sayf writes one sentence to standard error. Nobody could be told of a failure.
func (s streams) sayf(format string, args ...any) {
	said := printer.Line(s.conceal(fmt.Sprintf("holdfast: "+format, args...)))
	lines := []string{said}
	if width := terminalWidth(s.stderr); width > 0 { // a terminal would break it within words
		lines = text.Wrap(said, "", width)
	}
	_ = printer.Lines(s.stderr, lines...)
}

// conceal is [conceal] of the URLs with a password among the words.
func (s streams) conceal(said string) string { return conceal(said, s.words, hasPassword) }

// helped stops kong where it would end the program: after it has shown the help.
type helped struct{}

// Main runs the tool and returns its exit code.
func Main(args []string, stdout, stderr *os.File) int {
	connect.Quiet()
	s := streams{printer.New(stdout), printer.New(stderr), slices.Concat(args, os.Environ())}
	err := s.run(args)
	if failed := s.stdout.Close(); failed != nil { // more important than err
		err = unwritten(failed)
	}
	return s.exitCode(err)
}

// run runs a command line.
func (s streams) run(args []string) error {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(helped); !ok {
				panic(r)
			}
		}
	}()
	line := split(args)
	command, redis, err := line.parse(s)
	var coded *exit.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case err != nil:
		return exit.Because(exit.Usage, "%s", conceal(err.Error(), args, maybeURL))
	}
	return command.Run(s, redis)
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

// maybeURL matches what may be a URL, or a part of one; hasPassword what is one with a password; shortFlag a flag of one
// letter, which has its value right behind it.
var (
	maybeURL    = regexp.MustCompile("@|://")
	hasPassword = regexp.MustCompile("(?s)://.*:.*@")
	shortFlag   = regexp.MustCompile("^-[^-]")
)

// notShown stands in the place of what may be a credential.
const notShown = "(not shown)"

// conceal puts notShown in the place of each argument that matches secretive, and of the value that is assigned in
// it if that does: a URL that is put in the wrong place must not end up in a log.
func conceal(said string, args []string, secretive *regexp.Regexp) string {
	var secrets []string
	for _, arg := range args {
		if !secretive.MatchString(arg) {
			continue
		}
		secrets = append(secrets, arg)
		if _, value, _ := strings.Cut(arg, "="); secretive.MatchString(value) {
			secrets = append(secrets, value)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	for _, secret := range secrets {
		for _, form := range []string{strconv.Quote(secret), visible.Text(strconv.Quote(secret)), secret, visible.Text(secret)} {
			said = strings.ReplaceAll(said, form, notShown)
		}
	}
	return said
}

// blank is the same arguments with notShown in the place of what may be a credential. kong quotes, folds and cuts what it
// refuses, so it is not recognised in the error.
func blank(args []string) []string {
	all := slices.Clone(args)
	for i, arg := range all {
		flag, _, _ := strings.Cut(arg, "=")
		switch {
		case !maybeURL.MatchString(arg):
		case shortFlag.MatchString(arg):
			all[i] = shortFlag.FindString(arg) + notShown
		case strings.HasPrefix(arg, "-") && maybeURL.MatchString(flag):
			all[i] = arg[:len(arg)-len(strings.TrimLeft(arg, "-"))] + notShown
		case strings.HasPrefix(arg, "-"): // it is in the value
			all[i] = flag + "=" + notShown
		default:
			all[i] = notShown
		}
	}
	return all
}
