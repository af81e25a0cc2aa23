package cli

import (
	"cmp"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/internal/protocol"
)

// The bounds of --timeout, which the help has as well.
const (
	shortestLook = 100 * time.Millisecond
	longestLook  = 10 * time.Minute
)

// fileWidth is that of lines that are not for a terminal.
const fileWidth = 79

type doctorCommand struct {
	Kind    []string      `placeholder:"KIND" enum:"${doctored}" help:"Kinds of locks that have to work: ${doctored}. By default all of them are tried, and it is a failure if none works."`
	Prefix  string        `default:"holdfast_doctor" placeholder:"TEXT" help:"What the names of the locks that are tried begin with; a colon and a random word follow. For a user who may use certain names only. The default is ${default}."`
	Strict  bool          `help:"Have warnings count as failures do."`
	Timeout time.Duration `default:"15s" placeholder:"TIME" help:"The longest time for all of it: 100ms to 10m. What was not looked at by then is not known. The default is ${default}."`
	Verbose bool          `short:"v" help:"Print all that passed, of each server. By default that is a line for each check."`
	JSON    bool          `name:"json" help:"Print one JSON object a line for each finding."`
}

const doctorHelp = `It asks each server of the URL, of the cluster, or of those that the sentinels name; tries what
the user may do; and locks and unlocks locks with names of their own, which it removes. It says
what is well, what is not and what to do about it, and what the server does not say.

Fit for a start script or a job: it exits with 78 if there is a failure, with 69 if no server
can be used.
  holdfast doctor --kind mutex,fair --prefix orders --strict

docs/cli.md lists all checks.`

// Run is called by kong.
func (c *doctorCommand) Run(s streams, redis redisFlags) error {
	if err := c.check(); err != nil {
		return &exit.Error{Code: exit.Usage, Err: err}
	}
	target, err := redis.target()
	if err != nil {
		return err
	}
	ctx, ended, stop := untilSignal()
	defer stop()
	tell, end := c.writer(s, "Redis: "+target.String())
	report, err := doctor.Run(ctx, doctor.Config{Target: target, Prefix: c.Prefix, Kinds: c.Kind, Detailed: c.Verbose || c.JSON, Timeout: c.Timeout, Now: time.Now}, tell)
	err = errors.Join(err, end())
	if signalled := ended(); signalled != nil {
		return signalled
	}
	switch {
	case err != nil:
		return err
	case report.Unreachable:
		return exit.Silently(exit.Unavailable)
	case report.Worst == doctor.Failure, c.Strict && report.Worst == doctor.Warning:
		return exit.Silently(exit.Unfit)
	}
	return nil
}

// check refuses flags that make no sense.
func (c *doctorCommand) check() error {
	if c.Timeout < shortestLook || c.Timeout > longestLook {
		return errors.New("--timeout is from 100ms to 10m")
	}
	if err := protocol.CheckName(c.Prefix + ":0123456789ab"); err != nil {
		return errors.New("--prefix cannot begin the name of a lock: " + err.Error())
	}
	return nil
}

// writer is who is told the findings, and of their end.
func (c *doctorCommand) writer(s streams, title string) (tell func([]doctor.Finding), end func() error) {
	if c.JSON {
		var failed error // the first
		tell = func(found []doctor.Finding) {
			for _, f := range found {
				failed = cmp.Or(failed, present.JSON(s.stdout, f))
			}
		}
		return tell, func() error { return failed }
	}
	shown := &doctor.Printer{W: s.stdout, Width: fileWidth, Verbose: c.Verbose}
	if width := terminalWidth(s.stdout); width > 0 {
		shown.Width, shown.Terminal, shown.Colour = max(24, min(width-1, 96)), true, !plainWanted()
	}
	shown.Title(title)
	return shown.Tell, shown.End
}
