package cli

import (
	"bufio"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/connect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/present"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/printer"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/watch"
)

const (
	// mostSorted is how many locks are kept to be sorted; more are printed as they come.
	mostSorted = 10_000
	// impatience is how long a scan takes before it shows a progress bar.
	impatience = time.Second
)

// selection says which locks to look at.
type selection struct {
	Pattern string   `arg:"" optional:"" help:"Names to look at, as Redis has patterns: * is any text, ? any byte, [a-c] one of a set. Quote it for the shell. The default is all."`
	Kind    []string `placeholder:"KIND" enum:"${surveyed}" help:"Show only these kinds, with commas between: ${surveyed}."`
	Held    bool     `help:"Show only what somebody holds."`
}

func (c selection) options() survey.Options {
	options := survey.Options{Match: c.Pattern, Held: c.Held}
	for _, name := range c.Kind { // the parser has seen to it that there are such
		options.Kinds = append(options.Kinds, survey.Kind(name))
	}
	return options
}

// checkInterval keeps what looks again and again from asking without a pause.
func checkInterval(interval time.Duration) error {
	const shortest = 100 * time.Millisecond
	if interval < shortest {
		return exit.Because(exit.Usage, "an interval of %v is too short; the least is %v", interval, shortest)
	}
	return nil
}

type lsCommand struct {
	selection

	All  bool   `help:"List also what may be a lock or not: every integer, which may be a semaphore or a latch that nobody waits for, and fenced locks of which only the token is left."`
	Sort string `default:"name" enum:"${orders}" placeholder:"BY" help:"Sort by name, held (held longest first), left (ends first) or waiting (most wait first). The default is ${default}."`
	JSON bool   `name:"json" help:"Print one JSON object a line, not sorted. docs/cli.md lists what they have."`
}

const lsHelp = `What is held, who holds it and for how long:
  holdfast ls --held

The locks of orders, those that most wait for first:
  holdfast ls --sort waiting 'orders:*'

Read docs/cli.md for what is taken for a lock. It goes through all keys with SCAN, side by side on the
primaries of a cluster, and writes nothing.`

// Run is called by kong.
func (c *lsCommand) Run(s streams, flags redisFlags) error {
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, _ *connect.Target) error {
		out := bufio.NewWriter(s.stdout)
		l := &lister{streams: s, lsCommand: c, out: out, wipe: func() {}}
		options := c.options()
		options.All = c.All
		if canRedraw(s.stderr) {
			options.Progress, l.wipe = scanProgress(s.stderr)
		}
		tooLong, err := survey.Scan(ctx, rdb, options, l.add)
		l.wipe()
		if tooLong > 0 {
			s.sayf("%s", present.TooLong(tooLong))
		}
		if err != nil {
			return err
		}
		if err := l.end(); err != nil {
			return err
		}
		return out.Flush()
	})
}

// lister prints what is found.
type lister struct {
	streams
	*lsCommand

	out   *bufio.Writer
	wipe  func() // the progress bar
	found int
	locks []survey.Lock // to be sorted
	table *present.Table
}

// add takes a lock that was found.
func (l *lister) add(lock survey.Lock) error {
	l.found++
	switch {
	case l.JSON:
		return present.JSON(l.out, lock)
	case l.table != nil:
		return printer.Lines(l.out, l.table.Line(lock))
	}
	l.locks = append(l.locks, lock)
	if len(l.locks) <= mostSorted {
		return nil
	}
	l.wipe()
	l.sayf("there are more than %d, so they are listed as they come from here on, and not sorted", mostSorted)
	return l.print()
}

// print prints what there is, sorted.
func (l *lister) print() error {
	present.Order(l.Sort).Sort(l.locks)
	l.table = present.NewTable(l.locks, terminalWidth(l.stdout))
	if err := printer.Lines(l.out, l.table.Head()); err != nil {
		return err
	}
	for _, lock := range l.locks {
		if err := printer.Lines(l.out, l.table.Line(lock)); err != nil {
			return err
		}
	}
	l.locks = nil
	return nil
}

// end prints what has not been printed.
func (l *lister) end() error {
	switch {
	case l.found == 0 && l.Held:
		l.sayf("no lock is held%s", l.among())
	case l.found == 0:
		l.sayf("no lock was found%s", l.among())
	case !l.JSON && l.table == nil:
		return l.print()
	}
	return nil
}

// among says among which names.
func (l *lister) among() string {
	if l.Pattern == "" {
		return ""
	}
	return " among the names " + l.Pattern
}

// scanProgress draws a bar on a terminal while a scan takes long, until wipe is called.
func scanProgress(out *printer.Printer) (tell func(done, total int64), wipe func()) {
	began := time.Now()
	shown, ended := bar{out: out}, false
	tell = func(done, total int64) {
		if !ended && time.Since(began) >= impatience {
			shown.draw("looking at the keys", done, total)
		}
	}
	return tell, func() {
		if !ended {
			ended = true
			shown.wipe()
		}
	}
}

type showCommand struct {
	Name string `arg:"" type:"name" help:"Name of the lock: the Redis key."`
	JSON bool   `name:"json" help:"Print one JSON object instead. docs/cli.md lists what it has."`
}

const showHelp = `Who holds a lock, since when and for how much longer, and who waits for it:
  holdfast show orders:42

It exits with 66 if there is no such lock, which is so of most kinds when nobody
holds it or waits for it.`

// Run is called by kong.
func (c *showCommand) Run(s streams, flags redisFlags) error {
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, _ *connect.Target) error {
		lock, err := survey.Read(ctx, rdb, c.Name)
		if err != nil {
			return unreadable(c.Name, err)
		}
		if c.JSON {
			return present.JSON(s.stdout, lock)
		}
		return printer.Lines(s.stdout, present.Details(lock, terminalWidth(s.stdout))...)
	})
}

type watchCommand struct {
	selection

	Sort     string        `default:"name" enum:"${orders}" placeholder:"BY" help:"Sort by name, held (held longest first), left (ends first) or waiting (most wait first). The default is ${default}; the key s changes it."`
	Interval time.Duration `default:"2s" placeholder:"TIME" help:"Pause between two looks, from 100ms on; it is as long as a look takes if that is longer. The default is ${default}."`
}

const watchHelp = `The locks of orders, as they are, the longest held first:
  holdfast watch --sort held 'orders:*'

Keys: the arrows move, enter shows one lock, u takes it away if you then say y, s sorts, / filters, q
quits. Each look goes through all keys as ls does, so think of the interval where there are many.`

// Run is called by kong.
func (c *watchCommand) Run(s streams, flags redisFlags) error {
	if err := checkInterval(c.Interval); err != nil {
		return err
	}
	if terminalWidth(s.stdout) == 0 || !term.IsTerminal(os.Stdin.Fd()) || dumb() {
		return exit.Because(exit.Usage, "watch needs a terminal that it can draw on; otherwise there is holdfast ls, and ls --json")
	}
	return operate(flags, func(ctx context.Context, rdb redis.UniversalClient, target *connect.Target) error {
		err := watch.Run(ctx, os.Stdin, s.stdout.Beneath(), watch.Config{
			Redis: rdb, Server: target.String(), Interval: c.Interval, Order: present.Order(c.Sort),
			Options: c.options(),
			Explain: func(err error) string { return explain(err, target).Error() },
		})
		if errors.Is(err, watch.ErrInterrupted) {
			return bySignal(syscall.SIGINT)
		}
		return err
	})
}
