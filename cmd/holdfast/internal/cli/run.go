package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/runner"
	"github.com/holdfast-go/holdfast/goredisdriver"
)

type runCommand struct {
	Kind     string         `default:"mutex" enum:"${kinds},semaphore" placeholder:"KIND" help:"Kind of the lock: mutex (one command at a time), fair (the same, in the order in which they came), read (any number of them, but none beside a write), write (one at a time, and none beside a read; one that waits goes before reads that come later) or permits (a semaphore: so many at a time as it has permits; semaphore says the same). The default is ${default}."`
	Permits  *int           `placeholder:"N" help:"With --kind permits: there are N of them, so at most N commands run at once; each takes one. The first run sets that, and a later one with another N changes it, and says so. Without --permits the number stands as it was set before, by whomever; if nobody has, that is an error, unless --wait says to wait for it."`
	Fenced   bool           `help:"Give the command a fencing token in HOLDFAST_TOKEN: a number greater than those of all before it, by which a resource can refuse writes of a command that has lost the lock. For mutex, fair and write."`
	Wait     *time.Duration `placeholder:"TIME" help:"Longest wait for the lock, such as 500ms, 10s or 1h30m; 0 is one try. The default is to wait for ever."`
	Try      bool           `help:"Do not wait: exit with 75 at once if another has the lock."`
	Conflict int            `name:"conflict-exit-code" default:"75" placeholder:"N" help:"Exit code if another has the lock, after --try or --wait: 0 for a scheduler to whom that is a success. The default is ${default}."`
	Lease    time.Duration  `default:"30s" placeholder:"TIME" help:"How long a runner that crashed still blocks others; while it lives it renews the lock three times in each lease. The default is ${default}, the least 100ms."`
	OnLost   string         `default:"term" enum:"term,kill,ignore" placeholder:"WHAT" help:"What becomes of the command if the lock is lost: term (SIGTERM, and SIGKILL after the grace), kill (SIGKILL at once) or ignore. The default is ${default}. The exit code is 76, or 77 if some of it still runs."`
	Grace    *time.Duration `placeholder:"TIME" help:"Time from SIGTERM to SIGKILL. The default is 5s, or a quarter of the lease if that is less. It counts before the lease ends, so it must be under half of it."`
	MaxRun   time.Duration  `placeholder:"TIME" help:"Stop the command after so long, as with --on-lost term, and exit with 124. The default is never."`
	MinHold  time.Duration  `placeholder:"TIME" help:"Keep the lock from others at least so long, even if the command ends sooner. The default is 0s."`

	PassRedis bool   `help:"Let the command use the same Redis: pass the environment variables HOLDFAST_REDIS* on, for a command that runs holdfast itself. Without this they are taken away, since they may hold a password."`
	Quiet     bool   `short:"q" help:"Say nothing on standard error but what has failed."`
	Verbose   bool   `short:"v" help:"Say each step on standard error."`
	JSON      *int   `name:"json-status" placeholder:"FD" help:"Write what happens to this file descriptor, one JSON object a line: --json-status 3 with 3>FILE. docs/cli.md lists what they have."`
	Shell     string `short:"c" name:"shell" placeholder:"WORDS" help:"Run these words by sh -c, in place of a command after --: with pipes, redirections, variables."`

	Name    string   `arg:"" help:"Name of the lock: the Redis key, of 1 to 1024 bytes. One that begins with - has a -- of its own before it."`
	Command []string `arg:"" optional:"" passthrough:"partial" help:"Command to run, without a shell in between, and its arguments; put -- before it. It finds the lock's name and owner in HOLDFAST_LOCK and HOLDFAST_OWNER, with --fenced its token in HOLDFAST_TOKEN, with --kind permits the id of its permit in HOLDFAST_PERMIT, the process number of this holdfast in HOLDFAST_RUNNER, and gets the signals INT, TERM, HUP, QUIT, USR1, USR2 and WINCH that holdfast gets. Processes that it leaves behind in the background are not protected by the lock."`
}

const runHelp = `A nightly job that starts on every host and runs on one:
  holdfast run --try --min-hold 1m nightly -- /usr/local/bin/report --full

Reports side by side, and an import that nobody reads beside:
  holdfast run --kind read warehouse -- ./report.sh
  holdfast run --kind write warehouse -- ./import.sh

At most 3 of many jobs at once, on however many hosts:
  holdfast run --kind permits --permits 3 conversions -- ./convert.sh

More than one command:
  holdfast run nightly -c 'extract | load >log'

Inside a run of the same name it works under the hold of that one. It needs a Unix system: on
Windows it does not run.`

// take sees to the command: what follows the "--", or the words for a shell.
func (c *runCommand) take(line commandLine) error {
	shell := c.Shell != ""
	switch {
	case len(c.Command) > 0 && !line.dashes && !shell:
		return fmt.Errorf("the -- before the command is missing: holdfast run [flags] %s -- %s …", shown(c.Name), shown(c.Command[0]))
	case len(c.Command) > 0 && shell:
		return fmt.Errorf("-c takes one argument, so put quotes around all of its words; %s is left over", shown(c.Command[0]))
	case len(c.Command) > 0:
		return fmt.Errorf("before the -- there is the name of the lock only, so quote it if it has spaces; %s is left over", shown(c.Command[0]))
	case shell && line.dashes:
		return errors.New("-c and a command after -- exclude each other")
	case shell:
		c.Command = []string{"sh", "-c", c.Shell}
	case len(line.command) == 0:
		return errors.New("there is no command to run: " + texts[runName].usage)
	default:
		c.Command = line.command
	}
	return nil
}

// shown is an argument as one would type it into a shell, if it cannot hold a credential.
func shown(arg string) string {
	switch {
	case maybeURL.MatchString(arg):
		return notShown
	case arg == "" || strings.ContainsAny(arg, " \t\n'\"\\$`*?[]{}();&|<>#~!"):
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// Run is called by kong.
func (c *runCommand) Run(s streams, redis redisFlags) error {
	switch {
	case c.Try && c.Wait != nil:
		return exit.Because(exit.Usage, "--try and --wait exclude each other")
	case c.Quiet && c.Verbose:
		return exit.Because(exit.Usage, "--quiet and --verbose exclude each other")
	}
	if c.Try {
		c.Wait = new(time.Duration)
	}
	if c.Kind == "semaphore" {
		c.Kind = string(runner.Permits) // what ls and the metrics call it
	}
	target, err := redis.target()
	if err != nil {
		return err
	}
	config := runner.Config{
		Client: target.ClientOptions(), Name: c.Name, Kind: runner.Kind(c.Kind), Permits: c.Permits, Fenced: c.Fenced, Command: c.Command, Wait: c.Wait, Conflict: c.Conflict, Lease: c.Lease,
		OnLost: runner.OnLost(c.OnLost), Grace: c.Grace, MaxRun: c.MaxRun, MinHold: c.MinHold,
		Server: target.String(), Log: s.sayf, Conceal: s.conceal, Quiet: c.Quiet, Verbose: c.Verbose,
	}
	if c.PassRedis {
		config.Redis = redis.environment(target)
	}
	if c.JSON != nil { // before anything else is opened, which could have that number
		if config.Status, err = runner.OpenStatus(*c.JSON); err != nil {
			return exit.Because(exit.Usage, "%w", err)
		}
	}
	rdb := target.Client(connect.Bounded(target.Dial))
	err = runner.Run(config, goredisdriver.New(rdb))
	_ = rdb.Close() // the program ends with it
	return err
}
